// Tests which state fit keeps as the best.
#include "state/fit_nets.hpp"

namespace test::fitting {

/// A metric whose value the test sets.
struct SetByTest {
  std::string name = "value";
  const double* now;
  void update(const Batch&, const at::Tensor&) {}
  double value() const { return *now; }
};

TEST_CASE("fit: the best is the smallest or the largest, never NaN, and is known after a resume") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> values{nan, 2, 3, 1, nan};
  auto data = batches(2), valid = batches(1);
  for (const auto& [mode, best_epoch] : {std::pair(KeepBest::min, 4), std::pair(KeepBest::max, 3)})
    for (int first_epochs = 1; first_epochs <= 5; ++first_epochs) {
      const Folder folder;
      const auto best = folder.path / "best.safetensors";
      double now = values[0];
      Options o = options(folder.path, valid);
      o.metrics = {SetByTest{.now = &now}}, o.keep_best = KeepBest{"value", mode};
      o.on_epoch = [&](const Epoch& e) {
        now = e.epoch + 1 < 5 ? values[static_cast<std::size_t>(e.epoch + 1)] : nan;
      };
      o.epochs = first_epochs;
      made().fit(data, o);
      CHECK(fs::exists(best) == (first_epochs > 1));
      o.epochs = 5;
      made().fit(data, o);
      const auto metadata = load_tensors(best).header.metadata;
      CHECK(metadata.at("ikebana.steps") == std::to_string(2 * best_epoch));
    }
}

TEST_CASE(
    "fit: the weights of the best state, as readers of weights find them, are those validated") {
  auto data = batches(3), valid = batches(2);
  const Folder folder;
  Options o = options(folder.path, valid);
  o.keep_best = KeepBest{};
  auto trainer = made();
  const History history = trainer.fit(data, o);
  double best = history[0].validation->loss;
  for (const Epoch& epoch : history) best = std::min(best, epoch.validation->loss);
  nn::Sequential model(nn::Linear(8, 16), nn::BatchNorm1d(16), nn::Dropout(0.5), nn::Linear(16, 3));
  load_weights(model, folder / "best.safetensors");
  CHECK(Trainer{model, CrossEntropyLoss{}}.evaluate(valid).loss == best);
  trainer.load(folder / "best.safetensors", ignore_parts);
  CHECK(trainer.evaluate(valid).loss == best);
}

TEST_CASE("fit: a best state that was chosen by another rule is an error when training resumes") {
  auto data = batches(2), valid = batches(1);
  const Folder folder;
  auto resumed = [&](std::int64_t epochs, std::optional<KeepBest> rule) {
    Options o = options(folder.path, valid);
    o.epochs = epochs, o.keep_best = rule;
    made().fit(data, o);
  };
  resumed(1, KeepBest{});
  const KeepBest other{.metric = "accuracy", .mode = KeepBest::max};
  for (std::int64_t epochs : {2, 3}) {
    CHECK(contains(message_of<BadState>([&] { resumed(epochs, other); }),
                   "best_rule.min.loss` was how keep_best chose, here it is `max.accuracy`"));
    resumed(epochs, std::nullopt);  // keeps the rule
  }
  resumed(4, KeepBest{});
}

TEST_CASE("fit: a saved position or history that cannot be is an error, and nothing is loaded") {
  auto data = batches(3), valid = batches(2);
  const Folder folder;
  Options o = options(folder.path, valid);
  o.epochs = 2;
  made().fit(data, o);
  const TensorFile file = load_tensors(folder.path / step(6));
  auto refused = [&](const std::string& name, const at::Tensor& value, std::string named = {}) {
    const Folder forged;
    const std::string full = "ikebana.parts.fit." + name;
    StateDict state = file.tensors;
    REQUIRE(state.count(full) == 1);
    state[full] = value;
    save_tensors(forged.path / step(6), state);
    auto trainer = made();
    const std::string message =
        message_of<BadState>([&] { trainer.fit(data, options(forged.path, valid)); });
    CHECK_MESSAGE(contains(message, "`" + (named.empty() ? full : named)), message);
    CHECK(trainer.steps() == 0);
  };
  refused("epoch", at::scalar_tensor(-5, at::kLong));
  refused("epoch", at::scalar_tensor(std::int64_t{1} << 62, at::kLong));
  refused(
      "epoch", at::scalar_tensor(std::int64_t{1} << 50, at::kLong),
      "ikebana.parts.fit.history.steps` is Double[2], the trainer has Double[1125899906842624]");
  for (const int number : {-1, 4}) refused("batch", at::scalar_tensor(number, at::kLong));
  refused("steps", at::scalar_tensor(-1, at::kLong));
  const double nan = std::numeric_limits<double>::quiet_NaN();
  refused("history.steps", at::tensor({3., nan}, at::kDouble));
  refused("history.steps", at::tensor({3., 1e300}, at::kDouble));
  refused("history.loss", at::tensor({3.}, at::kDouble));
  refused("history.validation.loss", at::ones({3}, at::kDouble));
}

TEST_CASE("fit: the best of the states that could be saved is kept") {
  const std::vector<double> values{3, 1, 2};
  auto data = batches(2), valid = batches(1);
  for (const bool async : {false, true}) {
    const Folder folder;
    Disk disk([](int n) { return n == 1; });  // the second epoch's
    double now = values[0];
    Options o = options(folder.path, valid);
    o.files = &disk, o.save_async = async, o.save_every = 0;
    o.metrics = {SetByTest{.now = &now}}, o.keep_best = KeepBest{"value", KeepBest::min};
    o.on_epoch = [&](const Epoch& e) {
      if (e.epoch < 2) now = values[static_cast<std::size_t>(e.epoch + 1)];
    };
    const Warnings warnings;
    made().fit(data, o);
    CHECK(warnings.count("was not saved") == 1);
    const auto best = load_tensors(folder / "best.safetensors").header.metadata;
    CHECK(best.at("ikebana.steps") == "6");
  }
}

}  // namespace test::fitting
