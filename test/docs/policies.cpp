// Compiles and runs the code that the pages on microbatches, objectives, clipping, averages, frozen
// parameters and layout show.
#include "classes.hpp"

namespace test::policies {

TEST_CASE("docs/clip.md: the gradients of a step") {
  auto model = net();
  std::map<std::string, double> largest;
  auto look = [&](const std::string& name, const at::Tensor& gradient) {
    largest[name] = gradient.abs().max().item<double>();
  };
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, InspectGradients{look},
                  ClipGradNorm{}};
  trainer.step(classes()[0]);
  CHECK(largest.size() == 4);
}

TEST_CASE("docs/evaluate.md: figures of a data set, and outputs") {
  auto model = net();
  auto held_out = classes(2);
  const Rows batch = held_out[0];
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}};

  Evaluation found = trainer.evaluate(held_out, Accuracy{});
  double loss = found.loss, accuracy = found["accuracy"];

  at::Tensor logits = trainer.predict(batch);
  at::Tensor same = trainer.predict(batch.input);
  std::vector<at::Tensor> all = trainer.predict(held_out);

  CHECK((logits.equal(same) && logits.equal(all[0]) && all.size() == 2));
  CHECK((loss > 0 && accuracy >= 0));
}

TEST_CASE("docs/objective.md: several labels per row, with weights for the rare ones") {
  auto model = net();
  Rows batch{at::randn({12, 4}), at::rand({12, 3})};
  BCEWithLogitsLoss rare_labels{.pos_weight = torch::tensor({1.0f, 4.0f, 9.0f})};
  Trainer trainer{model, rare_labels, AdamW{.lr = 1e-3}};
  CHECK(trainer.step(batch).loss() > 0);
}

TEST_CASE("docs/objective.md: logits of a language model") {
  nn::Sequential model(nn::Embedding(9, 4), nn::Linear(4, 9));
  Trainer trainer{model, CrossEntropyLoss{.class_dim = -1}, AdamW{.lr = 1e-3}};
  at::Tensor text = at::randint(9, {12, 7}, at::kLong);
  CHECK(trainer.step(Rows{text.slice(1, 0, -1), text.slice(1, 1)}).loss() > 0);
}

TEST_CASE("docs/objective.md: the mean of a loss") {
  auto model = net();
  auto objective = [](auto& run, nn::Sequential& net, const Rows& batch) {
    at::Tensor logits = run(net, batch.input);
    at::Tensor mean = nn::functional::cross_entropy(logits, batch.target);
    return Loss::mean(mean, (batch.target != -100).sum(), logits);
  };
  Trainer trainer{model, objective, AdamW{.lr = 1e-3}};
  CHECK(trainer.step(classes()[0]).outputs.size(0) == 12);
}

TEST_CASE("docs/objective.md: a teacher's distribution") {
  auto model = net(), teacher = net();
  std::vector<Rows> loader{{at::randn({12, 4}), {}}};
  model->push_back(nn::LogSoftmax(1));
  Trainer trainer{model, KLDivLoss{.log_target = true}, AdamW{.lr = 1e-3}};
  for (Rows& batch : loader) {
    batch.target = teacher->forward(batch.input).detach().log_softmax(1);
    trainer.step(batch);
  }
  CHECK(trainer.steps() == 1);
}

TEST_CASE("docs/average.md: trained, evaluated with the average, exported") {
  auto model = net();
  auto loader = classes(), held_out = classes(2);
  at::Tensor exported;
  auto save = [&](nn::Sequential& whole) { exported = whole->parameters()[0].detach().clone(); };
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, EMA{.decay = 0.999}};
  for (const auto& batch : loader) trainer.step(batch);
  Evaluation averaged = trainer.evaluate(held_out);
  trainer.with_full_weights([&](auto& whole) { save(whole); }, {.averaged = true});
  CHECK(averaged.loss > 0);
  CHECK(test::same_bits(exported, trainer.mechanism<EMA>().averages()[0]));
}

TEST_CASE("docs/average.md: SWA and batch norm's statistics") {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(4, 16), nn::BatchNorm1d(16), nn::GELU(), nn::Linear(16, 3));
  auto loader = classes(), held_out = classes(2);
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.05},
                  SWA{.start_step = 8, .every_steps = 4}};  // 4 batches are an epoch here
  trainer.fit(loader, {.epochs = 5});
  trainer.update_bn(loader);
  Evaluation averaged = trainer.evaluate(held_out);
  CHECK(averaged.loss > 0);
  CHECK(trainer.mechanism<SWA>().n_averaged() == 4);
}

TEST_CASE("docs/between_steps.md") {
  auto model = net();
  auto loader = classes();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.groups = {no_decay("2.*")}}};
  trainer.step(loader[0]);
  trainer.get<AdamW>().lr = 1e-4;
  trainer.get<AdamW>().groups[0].match = "0.*";
  CHECK(trainer.step(loader[0]).learning_rate == 1e-4);
}

TEST_CASE("docs/clip.md") {
  auto model = net();
  auto loader = classes();
  std::vector<double> norms;
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, GradNorm{}};
  for (const auto& batch : loader) norms.push_back(*trainer.step(batch).grad_norm());
  for (double norm : norms) CHECK(norm > 0);
}

TEST_CASE("docs/clip.md: spikes, and where their batches are") {
  auto model = net();
  auto loader = classes(70);
  loader[68].input.mul_(1000);
  std::ostringstream out;
  auto* const former = std::cout.rdbuf(out.rdbuf());
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, ClipGradNorm{},
                  SkipSpikes{.window = 64, .zscore = 6}};
  trainer.fit(loader, {.epochs = 2});
  for (const Spike& spike : trainer.mechanism<SkipSpikes>().skips())
    std::cout << "step " << spike.step << ", batch " << spike.position->batch << " of epoch "
              << spike.position->epoch << ": loss " << spike.loss << ", norm " << spike.norm
              << '\n';
  std::cout.rdbuf(former);
  CHECK(out.str().find("step 68, batch 68 of epoch 0: loss ") == 0);
  CHECK(out.str().find("step 138, batch 68 of epoch 1: loss ") != std::string::npos);
}

TEST_CASE("docs/accumulate.md: microbatches that fit into memory") {
  auto model = net();
  auto loader = classes();
  std::ostringstream out;
  auto* const former = std::cout.rdbuf(out.rdbuf());
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Accumulate<Fit<>>{.max = 64}};
  for (const auto& batch : loader) std::cout << trainer.step(batch) << '\n';
  auto& fit = trainer.mechanism<Accumulate<Fit<>>>();
  for (const FitChange& change : fit.history())
    std::cout << "step " << change.step << ": " << change.from << " -> " << change.to << '\n';
  std::cout.rdbuf(former);
  CHECK(trainer.steps() == 4);
  CHECK(fit.microbatches() == 1);
}

TEST_CASE("docs/accumulate.md: a limit on a CPU") {
  auto model = net();
  auto loader = classes();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                  Accumulate<Fit<>>{.max = 64, .limit = std::int64_t{4} << 30}};
  CHECK(trainer.step(loader[0]).undone == 0);
}

TEST_CASE("docs/freeze.md: by name") {
  auto model = net();
  auto loader = classes();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, Freeze<>{.match = "0.*"}};
  for (const auto& batch : loader) trainer.step(batch);
  CHECK(test::same_bits(model->parameters()[0], net()->parameters()[0]));
}

struct BlockImpl : nn::Module {
  nn::Linear linear = register_module("linear", nn::Linear(4, 4));
  at::Tensor forward(const at::Tensor& x) { return at::tanh(linear(x)); }
};
TORCH_MODULE(Block);
struct ClassifierImpl : nn::Module {
  using units = Units<Block>;
  Block first = register_module("first", Block()), second = register_module("second", Block());
  nn::Linear head = register_module("head", nn::Linear(4, 3));
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return head(run(second, run(first, x)));
  }
};
TORCH_MODULE(Classifier);

TEST_CASE("docs/freeze.md: by type of unit") {
  Classifier model;
  auto loader = classes();
  Trainer<Classifier, CrossEntropyLoss, AdamW, Freeze<Block>> trainer{model};
  for (const auto& batch : loader) trainer.step(batch);
  CHECK_FALSE(model->first->linear->weight.requires_grad());
}

TEST_CASE("docs/layout.md: images with their channels beside each other") {
  torch::manual_seed(0);
  nn::Sequential model(nn::Conv2d(nn::Conv2dOptions(3, 4, 3)), nn::Flatten(), nn::Linear(64, 3));
  std::vector<Rows> images;
  for (int i = 0; i < 2; ++i)
    images.push_back({at::randn({6, 3, 6, 6}), at::randint(3, {6}, at::kLong)});
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, Layout<ChannelsLast>{}};
  for (const Rows& batch : images) trainer.step(batch);

  Report report = trainer.step(images[0]);
  std::cout << report.seconds << '\n';
  std::cout.rdbuf(terminal);
  CHECK(report.seconds > 0);
  CHECK(model->parameters()[0].is_contiguous(at::MemoryFormat::ChannelsLast));
}

}  // namespace test::policies
