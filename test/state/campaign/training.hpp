#pragma once
// A training that carries every kind of state, small enough to be killed a thousand times.
#include <ikebana.hpp>

namespace campaign {

namespace nn = torch::nn;
using namespace ikebana;
using Rows = std::pair<at::Tensor, at::Tensor>;

/// Samples of which each draws random numbers.
inline std::vector<Rows> rows() {
  std::vector<Rows> all;
  for (int i = 0; i < 6; ++i)
    all.emplace_back(at::linspace(-1 - i, 1, 64).view({8, 8}).sin(), (at::arange(8) + i) % 3);
  return all;
}

/// Dropout and batch norm, moments, averages, a loss scale, a schedule that remembers.
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

/// Goes on from what the folder holds, to the end, and leaves the last state in `folder.end`.
inline void train(const std::filesystem::path& folder, bool async) {
  at::set_num_threads(1);
  static struct : c10::WarningHandler {
    void process(const c10::Warning&) override {}  // a disk is slow here by design
  } silent;
  c10::WarningUtils::set_warning_handler(&silent);
  auto data = rows();
  auto training = trainer();
  auto how = options(folder, async);
  how.validate = data;
  training.fit(data, how);
  save_tensors(folder.string() + ".end", training.state());
}

}  // namespace campaign
