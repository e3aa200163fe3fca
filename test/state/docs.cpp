// Has the code of docs/state.md.
#include "state/folder.hpp"
#include "state/watch.hpp"

using namespace ikebana;
namespace nn = torch::nn;

namespace test::state_docs {

using Batch = std::pair<at::Tensor, at::Tensor>;

/// Counts epochs without improvement; the count is part of a saved state.
struct Patience {
  std::int64_t since_best = 0;
  double best = 1e30;
  void state(Archive& archive) {
    archive.number("since_best", since_best);
    archive.number("best", best);
  }
};

auto made() {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 2));
  return Trainer{model, CrossEntropyLoss{}};
}
auto batches() {
  at::Tensor x = at::linspace(-1, 1, 128).view({32, 4}).sin();
  return DataLoader{TensorDataset{Batch{x, x.sum(1).gt(0).to(at::kLong)}},
                    {.batch_size = 8, .shuffle = true, .seed = 1}};
}

TEST_CASE("state.md: your own loop saves and loads") {
  const Folder folder;
  const auto path = folder / "run.safetensors";
  auto trainer = made();
  auto loader = batches();
  Patience patience;
  for (auto& batch : loader) {
    trainer.step(batch);
    if (trainer.steps() % 2 == 0) trainer.save(path, {loader, patience});
  }
  const StateDict wanted = trainer.state();
  trainer = made();
  loader = batches();

  trainer.load(path, {loader, patience});

  CHECK(trainer.steps() == 4);
  CHECK(loader.position().batch == 4);
  CHECK(same_state(trainer.state(), wanted));

  PendingSave save = trainer.save_async(path, {loader, patience});
  trainer.step(Batch{at::ones({2, 4}), at::zeros({2}, at::kLong)});
  save.wait();  // it is on the disk

  CHECK(load_tensors(path).header.metadata.at("ikebana.steps") == "4");
}

/// A user's own count.
struct Counter {
  std::int64_t steps = 0;
  void state(Archive& archive) { archive.number("steps", steps, &count_range); }
};

TEST_CASE("state.md: fit saves and resumes objects of one's own") {
  const Folder temporary;
  const auto folder = temporary / "run";
  for (int run = 0; run < 2; ++run) {
    Counter counter;
    auto trainer = made();
    auto loader = batches();

    trainer.fit(loader, {.on_step = [&](const Report&) { ++counter.steps; },
                         .save_to = folder,
                         .resume = true,
                         .parts = {counter}});

    CHECK(counter.steps == 4);
  }
}

TEST_CASE("state.md: fit saves and resumes") {
  const Folder temporary;
  const auto folder = temporary / "run";
  auto trainer = made();
  auto loader = batches(), validation = batches();
  const History history = trainer.fit(loader, {.epochs = 3,
                                               .validate = validation,
                                               .progress = false,
                                               .save_to = folder,
                                               .save_every = 3,
                                               .keep = 2,
                                               .keep_best = KeepBest{},
                                               .resume = true,
                                               .save_async = true,
                                               .save_on_sigterm = true});
  CHECK(history.size() == 3);

  nn::Sequential model(nn::Linear(4, 8), nn::Tanh(), nn::Linear(8, 2));
  load_weights(model, folder / "best.safetensors");
  auto best = made();
  CHECK_THROWS_AS(best.load(folder / "best.safetensors"), BadState);
  best.load(folder / "best.safetensors", ignore_parts);
  CHECK(same_bits(best.model()->parameters(), model->parameters()));
}

TEST_CASE("state.md: weights from other programs") {
  const Folder folder;
  const auto path = folder / "model.safetensors";
  auto trainer = made();
  save_tensors(path, {{"net.0.weight", at::ones({8, 4}, at::kBFloat16)},
                      {"net.0.bias", at::ones({8}, at::kBFloat16)},
                      {"net.2.weight", at::ones({2, 8}, at::kBFloat16)},
                      {"net.2.bias", at::ones({2}, at::kBFloat16)}});

  trainer.load_weights(
      path, {.rename = [](const std::string& name) { return "net." + name; }, .cast = true});

  CHECK(trainer.model()->parameters()[0].eq(1).all().item<bool>());
}

}  // namespace test::state_docs
