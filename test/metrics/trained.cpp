// Tests metrics of training: they see the outputs of the steps' own forwards, each batch once.
#include "trainer/compare.hpp"

#include <ikebana/metrics.hpp>

#include "state/folder.hpp"
#include "state/watch.hpp"

using namespace ikebana;

namespace test::metrics_trained {

namespace {

namespace nn = torch::nn;
using Batch = std::pair<at::Tensor, at::Tensor>;
using Options = FitOptions<Batch>;

/// A model that notes the outputs of its forwards. It runs out of memory for more than `room` rows.
struct NotingImpl : nn::Module {
  using units = Units<nn::Linear>;
  nn::Linear up = register_module("up", nn::Linear(4, 8)), down{nullptr};
  std::int64_t room = 100, forwards = 0;
  bool is_flat = false, gives_outputs = true;
  std::vector<Batch> noted = {};  // outputs and targets
  NotingImpl() { down = register_module("down", nn::Linear(8, 3)); }
  template <class Run>
  Loss loss(Run& run, const Batch& batch) {
    if (batch.first.size(0) > room) throw OutOfMemory("no room");
    ++forwards;
    const at::Tensor x = at::dropout(at::relu(run(up, batch.first)), 0.5, is_training());
    const at::Tensor y = run(down, x);
    noted.emplace_back(y.detach().clone(), batch.second);
    const at::Tensor sum = at::cross_entropy_loss(y, batch.second, {}, at::Reduction::Sum);
    const at::Tensor outputs = is_flat ? at::stack({y, y}).flatten(0, 1) : y;
    return {sum, batch.second.numel(), gives_outputs ? outputs : at::Tensor()};
  }
};
TORCH_MODULE(Noting);

/// Seven batches, of which the last is ragged.
std::vector<Batch> data() {
  std::vector<Batch> all;
  for (int i = 0; i < 7; ++i) {
    const std::int64_t n = i == 6 ? 3 : 8;
    all.emplace_back(random({n, 4}, i), (at::arange(n) + i) % 3);
  }
  return all;
}
std::vector<Metric<Batch>> metrics() {
  return {Accuracy{}, F1Score<Multiclass>{.per_class = true}, Perplexity{}, AUROC<Multiclass>{}};
}
/// Returns the values of the metrics of what a model has noted, given all at once.
MetricValues by_hand(const std::vector<Batch>& noted) {
  std::vector<at::Tensor> outputs, targets;
  for (const auto& [y, t] : noted) outputs.push_back(y.to(at::kFloat)), targets.push_back(t);
  MetricValues values;
  for (const auto& metric : metrics()) {
    metric.update({{}, at::cat(targets)}, at::cat(outputs));
    for (auto& value : metric.values()) values.push_back(std::move(value));
  }
  return values;
}
void near(const MetricValues& got, const MetricValues& expected) {
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    CAPTURE(got[i].first);
    CHECK(got[i].first == expected[i].first);
    CHECK(got[i].second == doctest::Approx(expected[i].second).epsilon(1e-12));
  }
}

/// Trains for two epochs, and compares each with what the model noted in it. Returns the number of
/// forwards.
template <class... Ps>
std::int64_t equals_by_hand(std::int64_t room, std::int64_t batches_per_step, Ps... policies) {
  const auto all = data();
  auto made = [&] {
    torch::manual_seed(0);
    Noting model;
    model->room = room;
    return Trainer{model, AdamW{.lr = 1e-2}, policies...};
  };
  auto plain = made();
  Options options{.epochs = 2, .batches_per_step = batches_per_step, .progress = false};
  plain.fit(all, options);
  const std::int64_t forwards = plain.model()->forwards;
  const StateDict state = plain.state();
  options.train_metrics = metrics();
  auto trainer = made();
  int epochs = 0;
  options.on_epoch = [&](const Epoch& epoch) {
    near(epoch.train_metrics, by_hand(std::exchange(trainer.model()->noted, {})));
    CHECK(epoch.train_metric("accuracy") == epoch.train_metrics[0].second);
    ++epochs;
  };
  const History history = trainer.fit(all, options);
  CHECK((epochs == 2 && history[0].train_metrics != history[1].train_metrics));
  CHECK(trainer.model()->forwards == forwards);  // no other forward
  CHECK(same(trainer.state(), state));
  return forwards;
}

}  // namespace

TEST_CASE("train metrics: they are those of the steps' own outputs, each batch counted once") {
  CHECK(equals_by_hand(100, 1) == 14);
  CHECK(equals_by_hand(100, 3) == 14);  // groups of 3, 3 and 1 batches
  CHECK(equals_by_hand(100, 1, Accumulate<3>{}) == 42);
  CHECK(equals_by_hand(100, 1, Precision<BF16>{}, Checkpoint<Full>{}) == 14);
}

TEST_CASE("train metrics: a step that is made again in smaller parts counts once") {
  const Warnings ignored;
  CHECK(equals_by_hand(4, 1, Accumulate<Fit<8>>{}) == 28);
  CHECK(equals_by_hand(2, 4, Accumulate<Fit<8>>{}) == 54);  // 3 rows make 3 parts
}

TEST_CASE("train metrics: a skipped step counts, a step that throws does not") {
  auto all = data();
  all.resize(2);
  torch::manual_seed(0);
  Trainer skips{Noting(), Precision<FP16>{.init_scale = 0x1p100}, SGD{.lr = 0.1}};
  int skipped = 0;
  auto count = [&](const Report& report) { skipped += report.skipped(); };
  const History history =
      skips.fit(all, {.train_metrics = metrics(), .on_step = count, .progress = false});
  CHECK(skipped == 2);
  near(history[0].train_metrics, by_hand(skips.model()->noted));

  const Folder folder;
  auto made = [] {
    torch::manual_seed(0);
    return Trainer{Noting(), SGD{.lr = 0.1}};
  };
  Options options{.train_metrics = metrics(), .progress = false};
  auto whole = made();
  const History expected = whole.fit(all, options);
  options.save_to = folder.path, options.save_every = 1, options.resume = true;
  auto bad = all;
  bad[1].first = bad[1].first * std::numeric_limits<float>::infinity();
  auto throws = made();
  CHECK_THROWS_AS(throws.fit(bad, options), NonFinite);
  auto resumed = made();
  CHECK(resumed.fit(all, options)[0].train_metrics == expected[0].train_metrics);
}

TEST_CASE("train metrics: what they cannot be computed from is an error that says what to write") {
  const auto all = data();
  auto refuses = [&]<class E>(std::type_identity<E>, auto& trainer, Options options,
                              const Words& words) {
    options.progress = false;
    if (options.train_metrics.empty()) options.train_metrics = {Accuracy{}};
    CHECK(told<E>([&] { trainer.fit(all, options); }, words) == "");
    return trainer.steps();
  };
  Trainer silent{nn::Linear(4, 3), CrossEntropyLoss{}};
  CHECK(refuses(std::type_identity<BadValue>(), silent, {},
                {"train_metrics needs", "CrossEntropyLoss{.outputs = true}"}) == 0);
  Trainer noting{Noting()};
  CHECK(refuses(std::type_identity<BadValue>(), noting, {.train_metrics = {Accuracy{}, Accuracy{}}},
                {"`accuracy`"}) == 0);
  noting.model()->is_flat = true;
  CHECK(refuses(std::type_identity<BadModel>(), noting, {.batches_per_step = 2},
                {"have 16 rows", "[32, 3]", "Accumulate<N>"}) == 1);
  noting.model()->gives_outputs = false;
  CHECK(refuses(std::type_identity<Error>(), noting, {},
                {"`accuracy` needs", "Loss{sum, count, outputs}"}) == 2);
  struct Last {
    std::string name = "last";
    void update(const Batch&, const at::Tensor&) {}
    double value() const { return 0; }
  };
  const Folder folder;
  CHECK(refuses(std::type_identity<BadValue>(), noting,
                {.train_metrics = {Last{}}, .save_to = folder.path},
                {"`last`", "no `state(Archive&)`", "archive.number"}) == 2);
  CHECK(told<Error>([] { Epoch().train_metric("f1"); }, {"`f1`", ".train_metrics"}) == "");
}

TEST_CASE("train metrics: a training that resumes within an epoch needs the same ones") {
  const auto all = data();
  const Folder folder;
  auto fit = [&](std::vector<Metric<Batch>> given, std::optional<std::int64_t> max_steps,
                 std::optional<std::int64_t> epochs = {}) {
    torch::manual_seed(0);
    Trainer trainer{Noting(), AdamW{.lr = 1e-2}};
    return trainer.fit(all, {.epochs = epochs,
                             .max_steps = max_steps,
                             .train_metrics = std::move(given),
                             .progress = false,
                             .save_to = folder.path,
                             .resume = true});
  };
  using F1 = F1Score<Multiclass>;
  const History half = fit({F1{}}, 4);
  CHECK((half[0].steps == 4 && half[0].train_metrics.size() == 1));
  CHECK(told<BadState>([&] { fit({F1{}, Accuracy{}}, 9); },
                       {"rank0.accuracy` is missing", "of the rest alone"}) == "");
  CHECK(told<BadState>([&] { fit({}, 9); }, {"train_metrics.rank0.f1"}) == "");
  CHECK(told<BadState>([&] { fit({F1{.average = Average::Micro}}, 9); },
                       {"f1.options.average` is Macro, here it is Micro"}) == "");
  CHECK(fit({F1{}}, 7)[0].train_metrics != half[0].train_metrics);
  CHECK(told<BadState>([&] { fit({F1{}, Accuracy{}}, 9); }, {"is missing"}) == "");
  fit({F1{}}, {}, 1);  // ends the epoch
  const History longer = fit({F1{}, Accuracy{}}, {}, 2);
  CHECK((longer[0].train_metrics.size() == 1 && longer[1].train_metrics.size() == 2));
}

TEST_CASE("metrics: one that is loaded by other options is an error that names the option") {
  auto differs = [](const Metric<Batch>& saved, const Metric<Batch>& other, const char* option,
                    const char* values) {
    StateDict dict;
    Archive archive(dict, Archive::Mode::Save);
    saved.state(archive);
    Archive check(dict, Archive::Mode::Check);
    other.state(check);
    const std::string name = saved.name() + ".options." + option;
    CHECK(told<BadState>([&] { check.finish_check(); }, {name.c_str(), values}) == "");
  };
  using B = F1Score<Binary>;
  using C = F1Score<Multiclass>;
  using L = F1Score<Multilabel>;
  differs(Accuracy{}, Accuracy{.ignore_index = 0}, "ignore_index", "is -100, here it is 0");
  differs(Accuracy{}, Accuracy{.dim = 1}, "dim", "is not given, here it is 1");
  differs(B{}, B{.task = {.threshold = 0.25}}, "threshold", "is 0.5, here it is 0.25");
  differs(B{}, B{.task = {.from_logits = false}}, "from_logits", "is 1, here it is 0");
  differs(L{}, B{}, "task", "is Multilabel, here it is Binary");
  differs(C{}, C{.task = {.num_classes = 3}}, "num_classes", "is 0, here it is 3");
  differs(C{}, C{.task = {.dim = -1}}, "dim", "is not given, here it is -1");
  differs(C{}, C{.average = Average::Weighted}, "average", "is Macro, here it is Weighted");
  differs(ConfusionMatrix<Binary>{}, ConfusionMatrix<Binary>{.normalize = Normalize::All},
          "normalize", "is Off, here it is All");
  differs(TopKAccuracy{.k = 2}, TopKAccuracy{.k = 3, .name = "top_2_accuracy"}, "k",
          "is 2, here it is 3");
  differs(Perplexity{}, Perplexity{.dim = 1}, "dim", "is not given, here it is 1");
  differs(AUROC<Binary>{.thresholds = 5}, AUROC<Binary>{.thresholds = 9}, "thresholds",
          "is 5, here it is 9");
  differs(MeanSquaredError{}, MeanSquaredError{.squared = false, .name = "mse"}, "squared",
          "is 1, here it is 0");
  differs(R2Score{}, R2Score{.multioutput = Multioutput::VarianceWeighted}, "multioutput",
          "is UniformAverage, here it is VarianceWeighted");
}

}  // namespace test::metrics_trained
