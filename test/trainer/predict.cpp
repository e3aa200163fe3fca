// predict: what the model gives for a batch or an input, as evaluate computes it.
#include "test.hpp"

#include "classifier.hpp"

namespace test::predict {

using namespace ikebana;
using verbs::Rows;

/// Units, a forward that takes `run`, and a loss that computes with it.
struct ShownImpl : torch::nn::Module {
  using units = Units<Layer>;
  Layer a = register_module("a", Layer()), b = register_module("b", Layer());
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return run(b, run(a, x));
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor y = forward(run, batch.input);
    return {at::mse_loss(y, batch.target, at::Reduction::Sum), batch.target.numel(), y};
  }
};
TORCH_MODULE(Shown);
inline Rows pairs(int seed) { return {random({6, 4}, seed), random({6, 4}, seed + 50)}; }
inline std::vector<Rows> data() { return {pairs(1), pairs(2), pairs(3)}; }
template <class Model>
Model made() {
  torch::manual_seed(0);
  return Model();
}

using verbs::Net;

/// Keeps the outputs that an evaluation saw.
struct Outputs {
  std::string name = "outputs";
  std::shared_ptr<std::vector<at::Tensor>> seen = std::make_shared<std::vector<at::Tensor>>();
  void update(const auto&, const at::Tensor& outputs) { seen->push_back(outputs.clone()); }
  double value() const { return 0; }
};

/// All forms of predict have the bits of the outputs that an evaluation sees, and change nothing.
template <class Model = Shown, class... Policies>
void as_evaluated(const Policies&... policies) {
  Trainer trainer{made<Model>(), SGD{.lr = 0.1}, policies...};
  for (const Rows& batch : data()) trainer.step(batch);
  const Outputs outputs;
  trainer.evaluate(data(), outputs);
  const StateDict before = trainer.state();
  const std::vector<at::Tensor> of_loader = trainer.predict(data());
  CHECK(same_bits(of_loader, *outputs.seen));
  for (std::size_t i = 0; i < data().size(); ++i) {
    const at::Tensor of_batch = trainer.predict(data()[i]);
    CHECK(same_bits(of_batch, (*outputs.seen)[i]));
    CHECK_FALSE(of_batch.requires_grad());
    if constexpr (std::is_same_v<Model, Shown>)
      CHECK(same_bits(trainer.predict(data()[i].input), of_batch));
  }
  CHECK(same(trainer.state(), before));
  CHECK(no_gradients(trainer.model()));
  for (const auto& module : trainer.model()->modules()) CHECK(module->is_training());
}

TEST_CASE("predict: a batch, an input and a loader give what an evaluation sees, in any recipe") {
  as_evaluated();
  as_evaluated(Precision<BF16>{});
  as_evaluated(Precision<FP16>{}, ClipGradNorm{});
  as_evaluated(Precision<BF16Weights>{});
  as_evaluated(Precision<BF16Weights>{}, EMA{.decay = 0.5}, Accumulate<2>{});
  as_evaluated(Precision<BF16True>{}, Checkpoint<Full>{});
  as_evaluated(Precision<FP8>{});
  as_evaluated(EMA{.decay = 0.5}, Offload<CPU>{});
  as_evaluated(Offload<CPU, Activations>{}, Accumulate<Fit<>>{.max = 4});
  as_evaluated(MSELoss{}, Freeze<>{.match = named("a.*")});
}
TEST_CASE("predict: of a model with a loss alone it gives the loss's outputs") {
  as_evaluated<OpenNet>();
  as_evaluated<OpenNet>(EMA{.decay = 0.5}, Precision<BF16>{});
  auto without = [](auto&, OpenNet& net, const Rows& batch) {
    return Loss{net->last(batch.input).sum(), batch.input.size(0)};
  };
  Trainer trainer{made<OpenNet>(), without};
  CHECK(undone<BadModel>(
            trainer, pairs(1), [&] { trainer.predict(pairs(1)); },
            {"predict: the loss gave no outputs", "Return Loss{sum, count, outputs}"}) == "");
}

TEST_CASE("predict: it computes in evaluation mode, without gradients, and restores each mode") {
  Net model = verbs::net();
  Trainer trainer{model, CrossEntropyLoss{}, SGD{}};
  trainer.step(verbs::batch(0));
  model->norm->eval();  // a frozen norm stays frozen
  const at::Tensor x = verbs::batch(1).input, y = trainer.predict(x);
  CHECK_FALSE(model->saw_gradients);
  CHECK((model->is_training() && model->drop->is_training() && !model->norm->is_training()));
  model->eval();
  CHECK(same_bits(y, model->forward(x)));
  CHECK(same_bits(trainer.predict(std::pair(x, at::Tensor())), y));
  CHECK(same_bits(trainer.predict(std::map<std::string, at::Tensor>{{"input", x}}), y));
  CHECK(same_bits(trainer.predict(std::vector<std::tuple<at::Tensor>>{{x}, {x}}), {y, y}));
  const std::unique_ptr<std::vector<Rows>> pointer(new std::vector<Rows>{{x, {}}});
  CHECK(same_bits(trainer.predict(pointer), {y}));
  // The bits of a row may depend on the number of rows: each batch is compared by itself.
  CHECK(same_bits(
      trainer.predict(DataLoader{TensorDataset{Rows{x, at::arange(8) % 5}}, {.batch_size = 4}}),
      {model->forward(x.slice(0, 0, 4)), model->forward(x.slice(0, 4))}));
}

/// Takes two values, and returns more than a tensor.
struct MaskedImpl : torch::nn::Module {
  using units = Units<Layer>;
  Layer a = register_module("a", Layer());
  template <class Run>
  std::pair<at::Tensor, std::vector<at::Tensor>> forward(Run& run, const at::Tensor& x,
                                                         const at::Tensor& mask) {
    at::Tensor y = run(a, x);
    return {y * mask, {y}};
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    auto [y, all] = forward(run, batch.input, at::ones({4}));
    return {y.sum(), y.numel(), all[0]};
  }
};
TORCH_MODULE(Masked);

TEST_CASE("predict: it takes and returns what forward takes and returns") {
  auto model = made<Masked>();
  Trainer trainer{model, Precision<BF16Weights>{}};
  trainer.step(pairs(1));
  const at::Tensor x = random({2, 4}), mask = at::tensor({1.0f, 0.0f, 1.0f, 0.0f});
  const auto [masked, all] = trainer.predict(x, mask);
  const at::Tensor outputs = trainer.predict(Rows{x, {}});
  CHECK(same_bits(all, {outputs}));
  CHECK(same_bits(masked, outputs * mask));
}

/// Gives parameters and buffers themselves, views included.
struct OpenImpl : torch::nn::Module {
  at::Tensor weight = register_parameter("weight", at::ones({2, 2}));
  at::Tensor buffer = register_buffer("buffer", at::ones({2}));
  std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor&) {
    return {weight, weight.flatten(), buffer};
  }
};
TORCH_MODULE(Open);

TEST_CASE("predict: a result is the caller's, also where the model gives its own tensors") {
  auto check = [](const auto&... policies) {
    auto objective = [](auto&, Open& model, const Rows& batch) {
      model->buffer.add_(1);
      return Loss{(model->weight * batch.input).sum(), 1};
    };
    auto model = made<Open>();
    Trainer trainer{model, objective, SGD{.lr = 0.5}, policies...};
    const Rows batch{at::ones({2, 2}), {}};
    trainer.step(batch);
    auto [weight, flat, buffer] = trainer.predict(batch.input);
    const std::vector<at::Tensor> before{weight.clone(), flat.clone(), buffer.clone()};
    trainer.step(batch);
    CHECK(same_bits({weight, flat, buffer}, before));
    weight.zero_(), buffer.zero_();
    CHECK(model->buffer.sum().item<double>() == 6);
    return before[0][0][0].item<double>();
  };
  CHECK(check() == 0.5);
  CHECK(check(EMA{.decay = 0.5}) == 0.5);  // the first average
  CHECK(check(Precision<BF16Weights>{}) == 0.5);
}

TEST_CASE("predict: errors say where, and change nothing") {
  Trainer trainer{made<Shown>(), SGD{.lr = 0.1}};
  trainer.step(pairs(1));
  CHECK(undone<StepFailed>(trainer, pairs(1), [&] { trainer.predict(random({6, 7})); },
                           {"(predict, after step 1). Nothing was updated."}) == "");
  for (const auto& module : trainer.model()->modules()) CHECK(module->is_training());
  std::function<void()> from_inside;
  auto objective = [&](auto& run, Shown& model, const Rows& batch) {
    if (from_inside) from_inside();
    return Loss{run(model, batch.input).sum(), 6};
  };
  Trainer nested{made<Shown>(), objective};
  from_inside = [&] { nested.predict(pairs(1)); };
  CHECK(told<Error>([&] { nested.step(pairs(1)); }, {"in the middle of a step"}) == "");
}

TEST_CASE("predict: an AnyTrainer gives the same, and says where its model gives no tensor") {
  auto concrete = [] { return Trainer{made<Shown>(), EMA{.decay = 0.5}, Precision<BF16>{}}; };
  auto plain = concrete();
  AnyTrainer<Rows> any = concrete();
  torch::manual_seed(1);
  plain.step(pairs(1));
  torch::manual_seed(1);
  any.step(pairs(1));
  CHECK(same_bits(any.predict(pairs(2)), plain.predict(pairs(2))));
  CHECK(same_bits(any.predict({pairs(2).input, {}}), plain.predict(pairs(2).input)));
  auto objective = [](auto&, Open& model, const Rows&) { return Loss{model->weight.sum(), 1}; };
  AnyTrainer<Rows> several = Trainer{made<Open>(), objective};
  CHECK(told<BadModel>([&] { several.predict(pairs(1)); }, {"does not give one tensor"}) == "");
}

/// Makes a mask in its first forward, and keeps it.
struct LazyImpl : ShownImpl {
  at::Tensor mask;
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    if (!mask.defined()) mask = at::ones({4}) * 2;
    return ShownImpl::forward(run, x) * mask;
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor y = forward(run, batch.input);
    return {at::mse_loss(y, batch.target, at::Reduction::Sum), batch.target.numel(), y};
  }
};
TORCH_MODULE(Lazy);

/// Evaluates and predicts in inference mode, first of all and between steps.
template <class... Policies>
void in_inference_mode(const Policies&... policies) {
  Trainer there{made<Lazy>(), SGD{.lr = 0.1}, policies...},
      here{made<Lazy>(), SGD{.lr = 0.1}, policies...};
  for (const Rows& batch : data()) {
    at::Tensor result;
    {
      const c10::InferenceMode inference;
      result = there.predict(batch);
      there.evaluate(data());
    }
    CHECK_FALSE(result.is_inference());
    CHECK(same_bits(result, here.predict(batch)));
    torch::manual_seed(7);
    CHECK_NOTHROW(there.step(batch));
    torch::manual_seed(7);
    here.step(batch);
  }
  CHECK(same(there.state(), here.state()));
}

TEST_CASE("predict: called in inference mode, predict and evaluate leave nothing of it behind") {
  in_inference_mode();
  in_inference_mode(EMA{.decay = 0.5});
  in_inference_mode(Precision<BF16Weights>{});
  in_inference_mode(Precision<BF16Weights>{}, EMA{.decay = 0.5}, Offload<CPU>{});
  in_inference_mode(Precision<FP16>{}, Checkpoint<Full>{});
}
TEST_CASE("predict: a step that uses an inference tensor says what to do") {
  Trainer trainer{made<Shown>(), SGD{.lr = 0.1}};
  Rows of_inference;
  {
    const c10::InferenceMode inference;
    of_inference = {random({6, 4}) * 2, random({6, 4})};
  }
  CHECK(undone<StepFailed>(trainer, pairs(1), [&] { trainer.step(of_inference); },
                           {"Inference tensors cannot be saved for backward",
                            "made under c10::InferenceMode", "clone() it outside of that mode"}) ==
        "");
  auto in_that_mode = [&] {
    const c10::InferenceMode inference;
    trainer.step(of_inference);
  };
  CHECK(undone<BadModel>(trainer, pairs(1), in_that_mode, {"with gradients enabled"}) == "");
  trainer.predict(of_inference);
}

}  // namespace test::predict
