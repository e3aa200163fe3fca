// Examples of the reference and of docs/logging.md: loggers, and training by steps.
#include "../classes.hpp"

#include <filesystem>
#include <ikebana/loggers.hpp>
#include <sstream>

namespace test::reference_loggers {

using namespace policies;
namespace fs = std::filesystem;

/// A folder for a test, which is the current one while this exists.
struct InFolder {
  fs::path before = fs::current_path(),
           path = fs::temp_directory_path() / ("ikebana_loggers_" + std::to_string(getpid()));
  InFolder() {
    fs::remove_all(path);
    fs::create_directories(path);
    fs::current_path(path);
  }
  ~InFolder() {
    fs::current_path(before);
    fs::remove_all(path);
  }
};

TEST_CASE("reference: several loggers at once") {
  const InFolder folder;
  auto loader = classes(4), held_out = classes(2);
  const fs::path states = "states";
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: CSVLogger, JSONLinesLogger, TensorBoardLogger, LogRows
  trainer.fit(loader, {.epochs = 3,
                       .validate = held_out,
                       .metrics = {Accuracy{}},
                       .loggers = {CSVLogger("steps.csv"), CSVLogger("epochs.csv", LogRows::epochs),
                                   JSONLinesLogger("run.jsonl"), TensorBoardLogger("runs/a")},
                       .log_every = 2,
                       .save_to = states,
                       .resume = true});
  // end
  for (const char* path : {"steps.csv", "epochs.csv", "run.jsonl"}) CHECK(fs::file_size(path) > 99);
  CHECK(std::distance(fs::directory_iterator("runs/a"), {}) == 1);
}

TEST_CASE("reference: loggers in a loop by hand") {
  const InFolder folder;
  auto loader = classes(4), held_out = classes(2);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  trainer.step(loader[0]);
  trainer.save("state.safetensors");
  // example: LogStart, CSVLogger, TensorBoardLogger, TensorBoardLogger::add_histogram
  CSVLogger log("steps.csv");
  TensorBoardLogger board("runs/a");
  if (fs::exists("state.safetensors")) {  // goes on with the rows before this step
    trainer.load("state.safetensors");
    log.begin({.step = trainer.steps(), .resumed = true});
    board.begin({.step = trainer.steps(), .resumed = true});
  }
  for (const Rows& batch : loader) {
    const Report report = trainer.step(batch);
    log(report), board(report);
    if (report.step % 100 == 0)
      for (const auto& weight : trainer.model()->named_parameters())
        board.add_histogram(weight.key(), weight.value(), report.step);
  }
  board.add_text("notes", "lr **1e-3**", trainer.steps());
  // end
  CHECK((trainer.steps() == 5 && fs::file_size("steps.csv") > 99));
}

// example: Logger, LogStart
struct Printer {  // a logger of your own
  std::ostream* out;
  void begin(const LogStart& start) {
    if (start.resumed) *out << "goes on after " << start.step << " steps\n";
  }
  void log(const Report& report) { *out << report.step << ' ' << report.loss() << '\n'; }
  void log(const Epoch& epoch) { *out << "epoch " << epoch.epoch << ' ' << epoch.loss << '\n'; }
};
// end

TEST_CASE("reference: a logger of your own") {
  std::ostringstream out;
  auto loader = classes(4);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: Logger
  trainer.fit(loader, {.loggers = {Printer{&out}}, .log_every = 4});
  // end
  const std::string text = out.str();
  CHECK(text.starts_with("3 "));
  CHECK(test::contains(text, "\nepoch 0 "));
}

TEST_CASE("reference: rows") {
  auto loader = classes(1);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: columns_of, LogRow
  LogRow row = columns_of(trainer.step(loader[0]));
  row.emplace_back("temperature", 0.5);  // a column of your own, for log(row) of a CSVLogger
  // end
  CHECK((row[0].first == "step" && row[1].first == "loss"));
}

TEST_CASE("reference: training by steps") {
  auto loader = classes(4), held_out = classes(2);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  std::ostringstream out;
  // example: FitOptions, Validation, Callbacks
  auto print = [&](const Validation& found) {
    out << "step " << found.step << "  loss " << found.loss << "  accuracy " << found["accuracy"]
        << '\n';
  };
  History history = trainer.fit(loader, {.max_steps = 10,
                                         .validate = held_out,
                                         .validate_every = 5,
                                         .metrics = {Accuracy{}},
                                         .on_validation = print});
  double last = history.validations.back().loss;
  // end
  CHECK((trainer.steps() == 10 && history.validations.size() == 2 && last > 0));
  CHECK(test::contains(out.str(), "step 4  loss "));
  std::int64_t steps = 0;
  // example: Callbacks
  auto count = [&](const Report&) { ++steps; };
  auto evaluate = [&](const Report& report) {
    if (report.step % 2 == 0) trainer.evaluate(held_out);  // changes no bit of the training
  };
  trainer.fit(loader, {.on_step = {count, evaluate}});
  // end
  CHECK(steps == 4);
}

}  // namespace test::reference_loggers
