// Examples of the reference: reports and errors.
#include "../classes.hpp"

#include <filesystem>
#include <fstream>

namespace test::reference_report {

using namespace policies;

TEST_CASE("reference: reports") {
  auto loader = classes(4), held_out = classes(2);
  const Rows batch = loader[0];
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}, ClipGradNorm{}};
  // example: Report
  Report report = trainer.step(batch);
  double loss = report.loss();  // waits for the device; report.mean() does not
  double norm = report.grad_norm().value();
  bool counted = !report.skipped();
  // end
  CHECK((loss > 0 && norm > 0 && counted && report.microbatches == 1));

  std::vector<double> losses;
  // example: Epoch, Evaluation, History
  auto print = [&](const Epoch& epoch) {
    const Evaluation& found = *epoch.validation;
    losses.push_back(found.loss);  // found["accuracy"] is the metric
  };
  History history = trainer.fit(
      loader, {.epochs = 2, .validate = held_out, .metrics = {Accuracy{}}, .on_epoch = print});
  bool early = history.stopped;
  // end
  CHECK((losses.size() == 2 && !early));
}

TEST_CASE("reference: what offloading moved") {
  const Rows batch = classes(1)[0];
  // example: OffloadTraffic
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Offload<CPU, Activations>{}};
  Report report = trainer.step(batch);
  std::int64_t bytes = report.offloaded ? report.offloaded->activations_out : 0;
  // end
  CHECK(bytes >= 0);
}

TEST_CASE("reference: errors of a step") {
  auto model = net();
  const Rows batch = classes(1)[0];
  std::string message;
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: Error, RankFailed, BadRecompute
  try {
    trainer.step(batch);
  } catch (const RankFailed& error) {
    message = error.what();  // which rank, and its error
  } catch (const BadRecompute& error) {
    message = error.what();  // which unit, and what differs
  } catch (const Error& error) {
    message = error.what();  // what, where, and the cure; the trainer is as before the step
  }
  // end
  CHECK(message.empty());
}

TEST_CASE("reference: errors of a batch") {
  std::string message;
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: BadBatch
  try {
    trainer.step(Rows{at::randn({12, 4}), at::zeros({5}, at::kLong)});
  } catch (const BadBatch& error) {
    message = error.what();  // tensors of different size in dimension 0
  }
  // end
  CHECK(test::contains(message, "different size in dimension 0"));

  // example: StepFailed
  try {
    trainer.step(Rows{at::randn({12, 9}), at::zeros({12}, at::kLong)});
  } catch (const StepFailed& error) {
    message = error.what();  // LibTorch's text, the operator, the layer, and the shapes
  }
  // end
  CHECK(test::contains(message, "cannot be multiplied"));

  // example: NonFinite
  try {
    trainer.step(Rows{at::full({12, 4}, INFINITY), at::zeros({12}, at::kLong)});
  } catch (const NonFinite& error) {
    message = error.what();  // nothing was updated
  }
  // end
  CHECK(test::contains(message, "not finite"));
}

TEST_CASE("reference: errors of a trainer that is made") {
  std::string message;
  // example: BadValue
  try {
    Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = -1}};
  } catch (const BadValue& error) {
    message = error.what();
  }
  // end
  CHECK(test::contains(message, "lr"));

  // example: BadModel
  auto model = net();
  for (at::Tensor& parameter : model->parameters()) parameter.set_requires_grad(false);
  try {
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  } catch (const BadModel& error) {
    message = error.what();  // every parameter is frozen
  }
  // end
  CHECK(test::contains(message, "parameter"));
}

TEST_CASE("reference: errors of files and states") {
  std::string message;
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  // example: BadState
  Trainer other{net(), CrossEntropyLoss{}, SGD{.lr = 1e-3}};
  try {
    other.restore(trainer.state());
  } catch (const BadState& error) {
    message = error.what();  // every name that does not fit; nothing was changed
  }
  // end
  CHECK(test::contains(message, "AdamW"));

  // example: FileFailed
  try {
    trainer.save("/no/such/folder/state.safetensors");
  } catch (const FileFailed& error) {
    message = error.what();
  }
  // end
  CHECK(test::contains(message, "/no/such/folder"));

  const auto path = std::filesystem::temp_directory_path() / "ikebana_reference_damaged";
  std::ofstream(path) << "no tensors";
  message.clear();
  // example: BadFile
  try {
    trainer.load(path);
  } catch (const BadFile& error) {
    message = error.what();  // which field, at which byte
  }
  // end
  CHECK(!message.empty());
  std::filesystem::remove(path);
}

TEST_CASE("reference: memory that runs out") {
  std::string message;
  // example: OutOfMemory, MemoryLimit
  MemoryLimit limit(MiB(1));  // as if a machine had no more
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  try {
    trainer.step(Rows{at::randn({10000, 4}), at::zeros({10000}, at::kLong)});
  } catch (const OutOfMemory& error) {
    message = error.what();  // what the step takes, and which policies would save most
  }
  // end
  CHECK(!message.empty());
}

}  // namespace test::reference_report
