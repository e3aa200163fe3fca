#pragma once
// The tests of fit with saved states train this.
#include "state/folder.hpp"
#include "state/watch.hpp"

namespace test::fitting {

using namespace ikebana;
namespace nn = torch::nn;
namespace fs = std::filesystem;

using Batch = std::pair<at::Tensor, at::Tensor>;
using Options = FitOptions<Batch>;

/// Returns a trainer with random numbers, buffers, moments, an average and a schedule with a state.
inline auto made() {
  torch::manual_seed(0);
  nn::Sequential model(nn::Linear(8, 16), nn::BatchNorm1d(16), nn::Dropout(0.5), nn::Linear(16, 3));
  return Trainer{model, CrossEntropyLoss{.outputs = true}, EMA{.decay = 0.9},
                 ReduceLROnPlateau{.patience = 0}, AdamW{.lr = 1e-2}};
}
inline std::vector<Batch> batches(int n) {
  std::vector<Batch> all;
  for (int i = 0; i < n; ++i)
    all.emplace_back(at::linspace(-1 - i, 1, 64).view({8, 8}).sin(), (at::arange(8) + i) % 3);
  return all;
}
/// The options are three epochs with a save after every third step. All states are kept.
inline Options options(const fs::path& folder, BatchSource<Batch> validate) {
  return {.epochs = 3,
          .validate = validate,
          .metrics = {Accuracy{}},
          .progress = false,
          .save_to = folder,
          .save_every = 3,
          .keep = 100,
          .resume = true};
}

/// Ends `fit` as SIGKILL would: nothing happens after this step, in `fit` or in its callbacks.
struct Killed {};
inline Options killed_after(Options o, std::int64_t steps) {
  o.on_step = [steps](const Report&) mutable {
    if (steps-- == 0) throw Killed{};
  };
  return o;
}
/// Returns true if the training completed.
template <class T, class Loader>
bool fits(T& trainer, Loader&& loader, const Options& o, History* history = nullptr) try {
  History found = trainer.fit(loader, o);
  if (history) *history = found;
  return true;
} catch (const Killed&) {
  return false;
}

/// Returns the file names in a folder.
inline std::set<std::string> names(const fs::path& folder) {
  std::set<std::string> all;
  for (const auto& item : fs::directory_iterator(folder)) all.insert(item.path().filename());
  return all;
}
/// Returns the file name of a step's state.
inline std::string step(int n) {
  const std::string digits = std::to_string(n);
  return "step-" + std::string(12 - digits.size(), '0') + digits + ".safetensors";
}

}  // namespace test::fitting
