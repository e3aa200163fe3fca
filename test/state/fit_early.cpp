// fit with early stopping and with parts of one's own: killed after any step and resumed, it stops
// after the same epoch, with the same bits.
#include <ikebana/fit/fit_state.hpp>

#include "state/fit_nets.hpp"

namespace test::fitting_early {

using namespace fitting;

/// Applies the rule of PyTorch Lightning's callback. Returns the number of epochs that a training
/// makes.
std::int64_t epochs_by_hand(const std::vector<double>& values, const EarlyStopping& rule) {
  const bool is_min = rule.mode != EarlyStopping::max;
  double best = is_min ? INFINITY : -INFINITY;
  std::int64_t waited = 0, epochs = 0;
  for (double value : values) {
    ++epochs;
    if (rule.check_finite && !std::isfinite(value)) return epochs;
    const bool improves = is_min ? value + rule.min_delta < best : value - rule.min_delta > best;
    if (improves && std::isfinite(value)) best = value, waited = 0;
    else if (++waited >= rule.patience) return epochs;
  }
  return epochs;
}

TEST_CASE("early stopping: it stops after the epoch in which PyTorch Lightning's callback does") {
  torch::manual_seed(0);
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<double> values;
    for (int i = 0; i < 12; ++i) values.push_back(torch::randint(8, {}).item<double>());
    if (trial % 5 == 0) values[static_cast<std::size_t>(trial % 12)] = trial % 2 ? NAN : INFINITY;
    for (const auto mode : {EarlyStopping::min, EarlyStopping::max})
      for (const std::int64_t patience : {1, 2, 4})
        for (const double min_delta : {0.0, 1.0, 2.5})
          for (const bool check_finite : {true, false}) {
            const EarlyStopping rule{{}, mode, patience, min_delta, check_finite};
            EarlyStopper stopper(rule);
            std::int64_t epochs = 0;
            for (double value : values) {
              ++epochs;
              if (stopper.step(value)) break;
            }
            CHECK(epochs == epochs_by_hand(values, rule));
          }
  }
}

/// A user's own state, on which each step depends: it sets the learning rate, and keeps rows.
struct Memory {
  static constexpr const char* state_name = "memory";
  std::int64_t steps = 0;
  at::Tensor rows = at::zeros({4});
  void state(Archive& archive) {
    archive.number("steps", steps, &count_range);
    archive.tensor("rows", rows);
  }
};
/// The objects of one training beside its trainer; made again after each kill.
struct Run {
  Memory memory;
  decltype(made()) trainer = made();
  History history;

  /// Returns true if it completed. `kill` says after how many steps it is killed. Negative means
  /// not at all.
  bool fits(const fs::path& folder, std::int64_t kill, std::int64_t patience = 2) {
    auto data = batches(3), valid = batches(2);
    Options o = options(folder, valid);
    o.epochs = 40, o.save_every = 2, o.metrics = {Accuracy{}};
    o.early_stopping = EarlyStopping{.patience = patience, .min_delta = 1e-3};
    o.parts = {memory};
    o.on_step = [&, kill](const Report& report) mutable {
      if (kill-- == 0) throw Killed{};
      memory.rows.add_(report.loss());
      trainer.template get<AdamW>().lr = 0.1 / static_cast<double>(++memory.steps);
    };
    return fitting::fits(trainer, data, o, &history);
  }
};

TEST_CASE("early stopping: killed after any step and resumed, it stops with the same bits") {
  const Warnings ignored;  // the warnings of the slow disk
  const Folder folder;
  Run whole;
  REQUIRE(whole.fits(folder.path, -1));
  CHECK(whole.history.stopped);
  const auto epochs = std::ssize(whole.history);
  CAPTURE(epochs);
  CHECK((epochs > 3 && epochs < 40));
  CHECK(whole.memory.steps == 3 * epochs);
  for (const int first : {1, 2, 3, 4, 7}) {
    INFO(first);
    const Folder other;
    std::int64_t runs = 0;
    auto last = std::make_unique<Run>();
    for (; !last->fits(other.path, first + runs % 3); ++runs) {
      REQUIRE(runs < 200);
      last = std::make_unique<Run>();
    }
    CHECK(runs > 0);
    CHECK(last->history.stopped);
    CHECK(std::ssize(last->history) == epochs);
    CHECK(same_state(last->trainer.state(), whole.trainer.state()));
    CHECK(last->memory.steps == whole.memory.steps);
    CHECK(same_bits(last->memory.rows, whole.memory.rows));
  }
  Run again;  // it has stopped: there is nothing left to do, until the rule allows more
  REQUIRE(again.fits(folder.path, -1));
  CHECK((again.history.stopped && std::ssize(again.history) == epochs));
  CHECK(same_state(again.trainer.state(), whole.trainer.state()));
  CHECK(again.memory.steps == whole.memory.steps);
  Run more;
  more.fits(folder.path, -1, 3);
  CHECK(std::ssize(more.history) > epochs);
}

TEST_CASE("early stopping: a training may begin with it, end it, and not change its rule") {
  const Folder folder;
  auto data = batches(2), valid = batches(1);
  auto run = [&](std::int64_t epochs, std::optional<EarlyStopping> rule) {
    Options o = options(folder.path, valid);
    o.epochs = epochs, o.early_stopping = std::move(rule);
    return made().fit(data, o);
  };
  run(1, {});
  run(2, EarlyStopping{.patience = 9});
  const EarlyStopping other{.metric = "accuracy", .mode = EarlyStopping::max};
  const std::string text = message_of<BadState>([&] { run(3, other); });
  CHECK(contains(text,
                 "`ikebana.parts.fit.early_stopping.rule.min.loss` was how early stopping "
                 "judged, here it is `max.accuracy`"));
  CHECK_FALSE(run(3, {}).stopped);
  CHECK_FALSE(run(4, other).stopped);
}

TEST_CASE("early stopping and parts: what cannot be is an error before the first step") {
  auto data = batches(2), valid = batches(1);
  auto trainer = made();
  Memory memory, twin;
  auto refused = [&](Options o, const std::string& words) {
    const std::string text = message_of<BadValue>([&] { trainer.fit(data, o); });
    CHECK_MESSAGE(contains(text, words), text);
    CHECK(trainer.steps() == 0);
  };
  refused({.early_stopping = EarlyStopping{}},
          "early_stopping chooses by validation, and there is");
  refused({.validate = valid, .early_stopping = EarlyStopping{.metric = "f1"}},
          "early_stopping names the metric `f1`, and not which of its values is the best. Give it "
          ".mode = EarlyStopping::max, or EarlyStopping::min.");
  refused({.validate = valid,
           .early_stopping = EarlyStopping{.metric = "f1", .mode = EarlyStopping::max}},
          "`f1`, which is not among metrics");
  refused({.validate = valid, .early_stopping = EarlyStopping{.patience = 0}},
          "EarlyStopping: patience is 0; it must be 1 or more");
  refused({.validate = valid, .early_stopping = EarlyStopping{.min_delta = -1}},
          "EarlyStopping: min_delta is -1");
  refused({.validate = valid, .early_stopping = EarlyStopping{.min_delta = NAN}},
          "min_delta is nan");
  refused({.parts = {memory}}, "and parts need a folder. Give save_to.");
  const Folder folder;
  CHECK(contains(message_of<BadValue>([&] { (void)Options{.parts = {memory, twin}}; }),
                 "two parts have the name `memory`"));
  ikebana::detail::FitState fit;
  refused({.save_to = folder.path, .parts = {fit}}, "two parts have the name `fit`");
}

TEST_CASE(
    "parts: a state without them, or with others, is an error; ignore_parts leaves them out") {
  const Folder folder;
  auto data = batches(2);
  Memory memory;
  Options o = options(folder.path, {});
  o.metrics = {}, o.parts = {memory}, o.epochs = 1;
  made().fit(data, o);
  o.parts = {}, o.epochs = 2;
  CHECK(
      contains(message_of<BadState>([&] { made().fit(data, o); }),
               "`ikebana.parts.memory.rows` was saved beside the trainer, and no part here takes"));
  o.parts = ignore_parts;
  CHECK(made().fit(data, o).size() == 2);
  o.parts = {memory}, o.epochs = 3;
  CHECK(contains(message_of<BadState>([&] { made().fit(data, o); }), "is missing"));
}

TEST_CASE("early stopping: in a loop of one's own it is saved beside the trainer") {
  const Folder folder;
  EarlyStopper stopper{EarlyStopping{.patience = 2}}, other{EarlyStopping{.patience = 2}};
  auto trainer = made();
  CHECK_FALSE(stopper.step(1));
  CHECK_FALSE(stopper.step(2));
  trainer.save(folder / "state", stopper);
  trainer.load(folder / "state", other);
  CHECK((other.best() == 1 && other.bad_epochs() == 1));
  CHECK(other.step(1));
}

}  // namespace test::fitting_early
