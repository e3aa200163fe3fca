// fit by steps, and with loggers: killed anywhere and resumed, it ends with the bits, the history
// and the rows of an uninterrupted training.
#include <fstream>
#include <ikebana/loggers.hpp>
#include <ikebana/metrics.hpp>
#include <regex>
#include <sstream>

#include "state/fit_nets.hpp"

namespace test::fit_logs {

using namespace fitting;

std::string read(const fs::path& path) {
  std::ostringstream all;
  all << std::ifstream(path).rdbuf();
  return all.str();
}
/// A log of JSON lines without the values that no two runs have in common.
std::string timeless(const fs::path& path) {
  static const std::regex times(R"re("(?:items_per_second|seconds)":[^,}]*)re");
  return std::regex_replace(read(path), times, "T");
}
/// The columns step, loss and lr of a log of steps; whole lines of another one, without seconds.
std::string columns(const fs::path& path, std::size_t count) {
  std::istringstream all(read(path));
  std::string text;
  for (std::string line; std::getline(all, line); text += '\n') {
    std::istringstream cells(line);
    std::string cell;
    for (std::size_t i = 0; i < count && std::getline(cells, cell, ','); ++i) text += cell + ",";
  }
  return text;
}

void same_evaluations(const Evaluation& a, const Evaluation& b) {
  CHECK((a.loss == b.loss && a.count == b.count && a.metrics == b.metrics));
}
void same_histories(const History& a, const History& b) {
  CHECK(a.stopped == b.stopped);
  REQUIRE((a.size() == b.size() && a.validations.size() == b.validations.size()));
  for (std::size_t e = 0; e < a.size(); ++e) {
    CHECK((a[e].epoch == b[e].epoch && a[e].steps == b[e].steps && a[e].loss == b[e].loss));
    CHECK(a[e].train_metrics == b[e].train_metrics);
    CHECK(a[e].last_step == b[e].last_step);
    REQUIRE(a[e].validation.has_value() == b[e].validation.has_value());
    if (a[e].validation) same_evaluations(*a[e].validation, *b[e].validation);
  }
  for (std::size_t i = 0; i < a.validations.size(); ++i) {
    const Validation &x = a.validations[i], &y = b.validations[i];
    CHECK((x.step == y.step && x.epoch == y.epoch));
    same_evaluations(x, y);
  }
}
void same_folders(const fs::path& a, const fs::path& b) {
  CHECK(names(a) == names(b));
  for (const std::string& name : names(a))
    if (name.ends_with(".safetensors"))
      CHECK(same_state(load_tensors(a / name).tensors, load_tensors(b / name).tensors));
}

Options with_loggers(Options o, const Folder& folder) {
  o.save_to = folder / "states";
  o.loggers = {CSVLogger(folder / "steps.csv"), CSVLogger(folder / "epochs.csv", LogRows::epochs),
               CSVLogger(folder / "validations.csv", LogRows::validations),
               JSONLinesLogger(folder / "run.jsonl")};
  return o;
}

/// The best state is that of the step with the first highest accuracy.
void keeps_best(const fs::path& states, const History& history) {
  const Validation* best = nullptr;
  for (const Validation& one : history.validations)
    if (!best || one["accuracy"] > (*best)["accuracy"]) best = &one;
  REQUIRE(best);
  CHECK(same_state(load_tensors(states / "best.safetensors").tensors,
                   load_tensors(states / step(static_cast<int>(best->step) + 1)).tensors));
}

void same_logs(const Folder& one, const Folder& other) {
  CHECK(timeless(one / "run.jsonl") == timeless(other / "run.jsonl"));
  for (const char* name : {"steps.csv", "epochs.csv"})
    CHECK(columns(one / name, 3) == columns(other / name, 3));
  CHECK(read(one / "validations.csv") == read(other / "validations.csv"));
}

/// Returns the history of the training that nothing interrupted.
template <class Change>
History resumes_exactly(const Change& change) {
  const Warnings ignored;
  auto valid = batches(2);
  auto given = [&](const Folder& folder) {
    Options o = with_loggers(options(folder.path, valid), folder);
    change(o);
    return o;
  };
  const Folder folder;
  auto whole = made();
  auto data = batches(7);
  History wanted;
  REQUIRE(fits(whole, data, given(folder), &wanted));
  if (given(folder).keep_best) keeps_best(folder / "states", wanted);
  for (int first : {0, 2, 5, 8}) {
    const Folder other;
    History history;
    auto last = made();
    int runs = 0;
    for (bool done = false; !done; ++runs) {
      REQUIRE(runs < 30);
      last = made();
      done = fits(last, data, killed_after(given(other), first + runs), &history);
    }
    CHECK(runs > 1);
    CHECK(same_state(last.state(), whole.state()));
    same_histories(history, wanted);
    same_folders(folder / "states", other / "states");
    same_logs(other, folder);
    auto again = made();  // what is complete stays as it is
    REQUIRE(fits(again, data, given(other), &history));
    same_histories(history, wanted);
    CHECK(timeless(other / "run.jsonl") == timeless(folder / "run.jsonl"));
  }
  return wanted;
}
std::vector<std::int64_t> steps_of(const History& history) {
  std::vector<std::int64_t> all;
  for (const Validation& validation : history.validations) all.push_back(validation.step);
  return all;
}

TEST_CASE("fit: killed after any step and resumed, its logs have no row twice and none too few") {
  SUBCASE("validation after each epoch") {
    const History history = resumes_exactly([](Options&) {});
    CHECK((history.size() == 3 && history[2].last_step == 20 && history.validations.empty()));
  }
  SUBCASE("every second step is logged") {
    resumes_exactly([](Options& o) { o.log_every = 2; });
  }
  SUBCASE("max_steps within an epoch") {
    const History history = resumes_exactly([](Options& o) { o.epochs = {}, o.max_steps = 10; });
    CHECK((history.size() == 2 && history[1].steps == 3 && history[1].validation));
    CHECK(!history.stopped);
  }
  SUBCASE("max_steps at the end of an epoch, and no state within the last one") {
    const History history =
        resumes_exactly([](Options& o) { o.epochs = {}, o.max_steps = 14, o.save_every = 5; });
    CHECK((history.size() == 2 && history[1].steps == 7));
  }
  SUBCASE("validation by steps, the best state kept, max_steps") {
    const History history = resumes_exactly([](Options& o) {
      o.epochs = {}, o.max_steps = 17, o.validate_every = 4, o.save_every = 2;
      o.keep_best = KeepBest{.metric = "accuracy", .mode = KeepBest::max};
    });
    CHECK(steps_of(history) == std::vector<std::int64_t>{3, 7, 11, 15});
    CHECK((history.validations[1].epoch == 1 && !history[0].validation));
    CHECK((history.size() == 3 && history[2].steps == 3));
  }
  SUBCASE("early stopping between steps") {
    const History history = resumes_exactly([](Options& o) {
      o.epochs = 9, o.validate_every = 3;
      o.early_stopping = EarlyStopping{.patience = 2, .min_delta = 0.2};
    });
    CHECK((history.stopped && history.size() < 9 && history.back().steps % 7 != 0));
  }
}

TEST_CASE("fit: killed after any step and resumed, its train metrics have the same bits") {
  SUBCASE("one keeps every item") {
    const History history = resumes_exactly(
        [](Options& o) { o.train_metrics = {Accuracy{}, Perplexity{}, AUROC<Multiclass>{}}; });
    for (const Epoch& epoch : history) CHECK(epoch.train_metrics.size() == 3);
  }
  SUBCASE("max_steps within an epoch, several batches per step") {
    const History history = resumes_exactly([](Options& o) {
      o.epochs = {}, o.max_steps = 10, o.batches_per_step = 2, o.save_every = 1;
      o.train_metrics = {Perplexity{}};
    });
    CHECK((history.size() == 3 && history[2].steps == 2));
  }
}

TEST_CASE("fit: a longer max_steps goes on as if it had not ended") {
  const Folder shorter, whole;
  auto valid = batches(2);
  auto data = batches(7);
  auto given = [&](const Folder& folder, std::int64_t max_steps) {
    Options o = with_loggers(options(folder.path, valid), folder);
    o.epochs = {}, o.max_steps = max_steps, o.validate_every = 3;
    return o;
  };
  History history, wanted;
  auto first = made();
  fits(first, data, given(shorter, 10), &history);
  auto second = made();
  fits(second, data, given(shorter, 20), &history);
  const StateDict state = second.state();
  auto longer = made();
  fits(longer, data, given(whole, 20), &wanted);
  CHECK((second.steps() == 20 && same_state(state, longer.state())));
  same_histories(history, wanted);
  CHECK(read(shorter / "validations.csv") == read(whole / "validations.csv"));
  CHECK(columns(shorter / "epochs.csv", 3) == columns(whole / "epochs.csv", 3));
}

TEST_CASE("fit: metrics of training are in the rows and the line of each epoch") {
  const Folder folder;
  auto data = batches(3), valid = batches(1);
  auto trainer = made();
  Options o = with_loggers({.validate = valid, .metrics = {Accuracy{}}, .progress = false}, folder);
  o.train_metrics = {Accuracy{}, RecallScore<Multiclass>{.per_class = true}};
  o.loggers.push_back(TensorBoardLogger(folder / "board"));
  const Epoch epoch = trainer.fit(data, o)[0];
  const std::string names = "train_accuracy,train_recall,train_recall.0,train_recall.1";
  CHECK(contains(read(folder / "epochs.csv"), ",seconds," + names + ",train_recall.2,val_loss,"));
  CHECK(contains(read(folder / "run.jsonl"), "\"train_recall.2\":"));
  std::string board;
  for (const std::string& name : fitting::names(folder / "board"))
    board += read(folder / "board" / name);
  CHECK(contains(board, "epoch/train_accuracy"));
  std::ostringstream line;
  line << epoch;
  CHECK(contains(line.str(), "epoch 0  loss "));
  CHECK(contains(line.str(), "  train_recall.2 "));
  CHECK(line.str().find("train_recall.2") < line.str().find("  val_accuracy "));
}

TEST_CASE("fit: evaluations and predictions within callbacks change no bit") {
  auto valid = batches(2);
  auto data = batches(7);
  auto rest = [&] { return Options{.epochs = 2, .validate = valid, .progress = false}; };
  auto plain = made();
  plain.fit(data, rest());
  const StateDict wanted = plain.state();
  auto watched = made();
  struct Watches {
    decltype(watched)* trainer;
    const std::vector<Batch>* valid;
    void log(const Report&) { trainer->evaluate(*valid, Accuracy{}); }
    void log(const Epoch&) { trainer->predict((*valid)[0].first); }
  };
  int calls = 0;
  auto evaluate = [&](const auto&) { calls += watched.evaluate(valid).count > 0; };
  Options o = rest();
  o.on_step = {evaluate, [&](const Report&) { watched.predict(valid[0].first), ++calls; }};
  o.on_epoch = evaluate;
  o.loggers = {Watches{&watched, &valid}};
  watched.fit(data, o);
  CHECK(calls == 14 + 14 + 2);
  CHECK(same_state(watched.state(), wanted));
}

TEST_CASE("fit: options by steps that contradict each other are errors") {
  auto valid = batches(1);
  auto data = batches(2);
  auto refused = [&](auto change) {
    Options o{.progress = false};
    change(o);
    auto trainer = made();
    const std::string text = message_of<BadValue>([&] { trainer.fit(data, o); });
    CHECK(trainer.steps() == 0);
    return text;
  };
  CHECK(contains(refused([](auto& o) { o.max_steps = -1; }), "max_steps is -1"));
  CHECK(contains(refused([](auto& o) { o.validate_every = 2; }), "Give validate, or leave"));
  CHECK(contains(refused([&](auto& o) { o.validate = valid, o.validate_every = -2; }), "is -2"));
  CHECK(contains(refused([](auto& o) { o.log_every = 0; }), "log_every is 0; it must be 1"));
  CHECK(contains(refused([](auto& o) { o.log_every = 2; }), "there are no loggers"));
  CHECK(contains(refused([](auto& o) { o.on_validation = [](const Validation&) {}; }),
                 "Set validate_every, or use on_epoch"));
  const Folder folder;
  CHECK(contains(refused([&](auto& o) {
                   o.validate = valid, o.max_steps = 3, o.save_to = folder.path;
                   o.keep_best = KeepBest{};
                 }),
                 "max_steps may end within one. Set validate_every"));
  auto trainer = made();  // its ReduceLROnPlateau follows validations
  CHECK(contains(message_of<BadValue>(
                     [&] { trainer.fit(data, Options{.validate = valid, .validate_every = 5}); }),
                 "Set it to at most 2, the steps of the epoch"));
  auto none = made();
  CHECK(none.fit(data, Options{.max_steps = 0}).empty());
}

/// Throws in its second row.
struct Fails {
  std::shared_ptr<int> rows = std::make_shared<int>(0);
  void log(const Report&) {
    if (++*rows == 2) throw FileFailed("no space");
  }
};

TEST_CASE("fit: a logger that throws ends it, and two loggers of one file are refused") {
  auto data = batches(7);
  auto trainer = made();
  CHECK(message_of<FileFailed>([&] { trainer.fit(data, Options{.loggers = {Fails{}}}); }) ==
        "no space");
  CHECK(trainer.steps() == 2);
  const Folder folder;
  const std::string path = folder / "run.csv";
  Options twice{.loggers = {CSVLogger(path), CSVLogger(path, LogRows::epochs)}};
  CHECK(contains(message_of<FileFailed>([&] { trainer.fit(data, twice); }),
                 "run.csv`: another logger is writing to it"));
  Options runs{.loggers = {TensorBoardLogger(folder / "a"), TensorBoardLogger(folder / "a")}};
  CHECK(contains(message_of<FileFailed>([&] { trainer.fit(data, runs); }), "another logger"));
  CHECK(trainer.steps() == 2);
}

}  // namespace test::fit_logs
