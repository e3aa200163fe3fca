// Examples of the reference: fit, and what an evaluation measures.
#include "../classes.hpp"

#include <filesystem>
#include <sstream>

namespace test::reference_fit {

using namespace policies;

TEST_CASE("reference: fit with all that it saves") {
  auto loader = classes(4), held_out = classes(2);
  const auto folder = std::filesystem::temp_directory_path() / "ikebana_reference_fit";
  std::filesystem::remove_all(folder);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: FitOptions, EarlyStopping, KeepBest
  FitOptions<Rows> options{.epochs = 20,
                           .validate = held_out,
                           .metrics = {Accuracy{}},
                           .early_stopping = EarlyStopping{.patience = 3, .min_delta = 1e-3},
                           .save_to = folder,
                           .keep_best = KeepBest{.metric = "accuracy", .mode = KeepBest::max},
                           .resume = true};
  History history = trainer.fit(loader, options);
  // end
  CHECK((!history.empty() && std::filesystem::exists(folder / "best.safetensors")));
  std::filesystem::remove_all(folder);
}

TEST_CASE("reference: metrics of the batches that are trained on") {
  auto loader = classes(4), held_out = classes(2);
  std::ostringstream out;
  // example: FitOptions::train_metrics, Epoch::train_metrics, Epoch::train_metric
  Trainer trainer{net(), CrossEntropyLoss{.outputs = true}, AdamW{.lr = 1e-3}};
  auto print = [&](const Epoch& epoch) { out << epoch << '\n'; };
  History history = trainer.fit(loader, {.epochs = 2,
                                         .validate = held_out,
                                         .metrics = {Accuracy{}},
                                         .train_metrics = {Accuracy{}},
                                         .on_epoch = print});
  double accuracy = history.back().train_metric("accuracy");
  // end
  CHECK((accuracy >= 0 && accuracy <= 1));
  CHECK(out.str().find("  train_accuracy ") < out.str().find("  val_accuracy "));
}

TEST_CASE("reference: stopping, and logs") {
  auto loader = classes(4);
  const auto path = std::filesystem::temp_directory_path() / "ikebana_reference_steps.csv";
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: StopWhen
  std::stop_source source;  // the source of the thread that serves the user
  source.request_stop();
  trainer.fit(loader, {.epochs = 10, .stop = StopWhen(source.get_token())});
  trainer.fit(loader, {.epochs = 10, .stop = StopWhen([&] { return trainer.steps() >= 6; })});
  // end
  CHECK(trainer.steps() == 6);

  // example: CSVLogger
  trainer.fit(loader, {.epochs = 1, .on_step = CSVLogger(path.string())});
  // end
  CHECK(std::filesystem::file_size(path) > 0);
  std::filesystem::remove(path);
}

TEST_CASE("reference: a loop over epochs of your own") {
  auto loader = classes(4), held_out = classes(2);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: EarlyStopper, Progress
  EarlyStopper stopper(EarlyStopping{.patience = 2});
  Progress progress(/*enabled=*/true, /*epochs=*/5, loader, /*batches_per_step=*/1);
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    for (const Rows& batch : loader) progress.draw(epoch, trainer.step(batch));
    if (stopper.step(trainer.evaluate(held_out).loss)) break;
  }
  // end
  CHECK(trainer.steps() > 0);
}

TEST_CASE("reference: batches of any loader") {
  auto held_out = classes(2);
  // example: BatchSource
  BatchSource<Rows> source = held_out;  // refers to it
  std::int64_t items = 0;
  source.visit([&](const Rows& batch) { items += rows(batch); });
  // end
  CHECK(items == 24);
}

// example: Metric
struct MeanError {  // a metric of your own
  std::string name = "mean_error";
  at::Tensor sum = at::zeros({}), count = at::zeros({});

  void update(const Rows& batch, const at::Tensor& outputs) {
    sum = sum + (outputs.argmax(1) - batch.target).abs().sum();
    count = count + batch.target.numel();
  }
  void reduce(RankGroup& ranks) { sum = ranks.sum(sum), count = ranks.sum(count); }
  double value() const { return (sum / count).item<double>(); }
};
// end

TEST_CASE("reference: metrics") {
  auto held_out = classes(2);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: Metric, Accuracy
  Evaluation found = trainer.evaluate(held_out, Accuracy{}, MeanError{});
  double accuracy = found["accuracy"], error = found["mean_error"];
  // end
  CHECK((accuracy >= 0 && error >= 0));
}

}  // namespace test::reference_fit
