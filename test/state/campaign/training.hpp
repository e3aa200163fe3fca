#pragma once
// Defines a training with every kind of state, small enough to be killed a thousand times.
#include <ikebana.hpp>

#include "state/campaign/quiet.hpp"

namespace campaign {

namespace nn = torch::nn;
using namespace ikebana;
using Rows = std::pair<at::Tensor, at::Tensor>;

/// Rows that threads read in a new order each epoch, each with its own random numbers.
struct Samples {
  std::int64_t size() const { return 40; }
  Rows get(std::int64_t i, SampleRng& rng) const {
    return {at::linspace(-1, static_cast<double>(i), 8).sin() + at::rand({8}, rng.generator()),
            at::scalar_tensor(i % 3, at::kLong)};
  }
};
inline auto loader() {
  return DataLoader{Samples{}, {.batch_size = 7, .shuffle = true, .num_workers = 2, .seed = 3}};
}
inline std::vector<Rows> validation() {
  return {{at::linspace(-1, 1, 64).view({8, 8}).sin(), at::arange(8) % 3}};
}

/// It has dropout and batch norm, moments, averages, a loss scale, and a schedule with a state.
inline auto trainer() {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(8, 16), nn::BatchNorm1d(16), nn::Dropout(0.5), nn::Linear(16, 3));
  return Trainer{model,
                 CrossEntropyLoss{},
                 AdamW{.lr = 1e-2},
                 Precision<FP16>{.growth_interval = 3},
                 ReduceLROnPlateau{.patience = 0},
                 EMA{.decay = 0.9},
                 ClipGradNorm{}};
}
using Training = decltype(trainer());

inline FitOptions<Rows> options(const std::filesystem::path& folder, bool async) {
  return {.epochs = 3,
          .progress = false,
          .save_to = folder,
          .save_every = 4,
          .keep_best = KeepBest{},
          .resume = true,
          .save_async = async};
}

/// The counts of a callback, saved beside the trainer.
struct Counter {
  std::int64_t steps = 0;
  void state(Archive& archive) { archive.number("steps", steps, &count_range); }
};

/// Trains until early stopping ends it, after three of four epochs, from the newest state of the
/// folder, and saves the last state as `folder.end`.
inline void train(const std::filesystem::path& folder, bool async) {
  at::set_num_threads(1);
  const Quiet quiet;  // saves are frequent, so the disk is too slow
  auto data = loader();
  auto valid = validation();
  auto training = trainer();
  auto fit_options = options(folder, async);
  Counter counter;
  fit_options.epochs = 4;
  fit_options.validate = valid;
  fit_options.on_step = [&](const Report&) { ++counter.steps; };
  fit_options.early_stopping = EarlyStopping{.patience = 2, .min_delta = 1e3};
  fit_options.parts = {counter};
  training.fit(data, fit_options);
  save_tensors(folder.string() + ".end", training.state(counter));
}

}  // namespace campaign
