// Profiles a training that is slow on purpose, and follows the advice as long as it can follow
// any. Each round is a report in a folder of its own.
//   profile [folder]
// ctest:
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <ikebana.hpp>
#include <ikebana/observe.hpp>
#include <ikebana/profiling.hpp>
#include <iostream>
#include <thread>

using namespace ikebana;

// The settings that the advice of a round changes in the next one.
struct Settings {
  std::int64_t num_workers = 0;
  bool persistent_workers = false;
  bool flushes_denormals = false;
  bool copies = true;
};

// Images of 64 x 64 pixels, on a drive from which a file takes a third of a millisecond.
struct Images {
  std::int64_t size() const { return 512; }
  std::pair<at::Tensor, at::Tensor> get(std::int64_t index, SampleRng& rng) const {
    std::this_thread::sleep_for(std::chrono::microseconds(300));
    at::Tensor blocks = at::randint(256, {4, 4, 3}, rng.generator(), at::kByte);
    return {blocks.repeat_interleave(16, 0).repeat_interleave(16, 1),
            at::scalar_tensor(index % 10, at::kLong)};
  }
};

// Radial basis functions of 48 features, and two linear layers.
struct BasisImpl : torch::nn::Module {
  explicit BasisImpl(bool makes_copies) : copies(makes_copies) {
    centers = register_parameter("centers", at::rand({256, 48}) * 3.46 - 1.73);
    hidden = register_module("hidden", torch::nn::Linear(256, 256));
    last = register_module("last", torch::nn::Linear(256, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    at::Tensor x = images.permute({0, 3, 1, 2});
    // It was written for a library that wants each step in memory of its own, and in double.
    for (int step = 0; copies && step < 2; ++step) {
      x = x.contiguous().to(at::kDouble).permute({0, 2, 3, 1}).contiguous();
      x = x.permute({0, 3, 1, 2}).contiguous().to(at::kFloat).clone();
    }
    x = torch::avg_pool2d(x.to(at::kFloat), 16).flatten(1).sub(127.5).div(73.9);
    // Two points at random are so far from each other that most of these are denormal.
    at::Tensor basis = at::cdist(x, centers).square().neg().exp();
    return last(at::relu(hidden(basis)));
  }
  bool copies;
  at::Tensor centers;
  torch::nn::Linear hidden{nullptr}, last{nullptr};
};
TORCH_MODULE(Basis);

RunProfile profiled(const Settings& settings, const std::filesystem::path& folder) {
  torch::manual_seed(0);
  at::globalContext().setFlushDenormal(settings.flushes_denormals);
  DataLoader loader{Images{},
                    {.batch_size = 32,
                     .num_workers = settings.num_workers,
                     .persistent_workers = settings.persistent_workers}};
  Trainer trainer{Basis(settings.copies), CrossEntropyLoss{},  AdamW{.lr = 1e-3},
                  Observe<Phases>{},      Observe<EachUnit>{}, Observe<Memory>{}};
  return profile_run(trainer, loader, folder, {.steps = 20});
}

// Changes what one piece of advice names. Returns false if the program cannot.
bool follow(const Advice& advice, Settings& settings) {
  if (advice.name == "data" && advice.value) return settings.num_workers = *advice.value, true;
  if (advice.name == "persistent_workers") return settings.persistent_workers = true;
  if (advice.name == "denormals") return settings.flushes_denormals = true;
  if (advice.name == "copies") return settings.copies = false, true;
  return false;
}

int main(int count, char** arguments) {
  const std::filesystem::path folder = count > 1 ? arguments[1] : "";
  Settings settings;
  double first = 0, last = 0;
  bool follows = true;
  for (int round = 0; follows && round < 5; ++round) {
    const RunProfile profile =
        profiled(settings, folder.empty() ? folder : folder / ("round" + std::to_string(round)));
    std::cout << "round " << round << '\n' << profile << '\n';
    last = profile.step.median;
    if (round == 0) first = last;
    follows = false;
    for (const Advice& advice : profile.advice) follows = follow(advice, settings) || follows;
  }
  std::printf("a step took %.1f ms, and takes %.1f ms\n", 1e3 * first, 1e3 * last);
  return last < first ? 0 : 1;
}
