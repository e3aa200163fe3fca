// Trains the GPT under recipes of which each has one policy more than the last, as contestants of
// policies.py. `memory_policies --fits BYTES` prints the width of the widest GPT whose training
// with AdamW alone takes at most so many bytes, by the estimate.
#include <cstring>
#include <filesystem>
#include <ikebana/estimate.hpp>

#include "../step/gpt_of.hpp"
#include "../step/worker.hpp"

namespace {

using namespace ikebana;
using bench::Batch, bench::Contestant, bench::Setting;

template <class... Policies>
Contestant recipe(const Setting& setting, Policies... policies) {
  GPT model = bench::gpt_of(setting);
  auto trainer = std::make_shared<Trainer<GPT, ClipGradNorm, Policies...>>(model, policies...);
  auto report = std::make_shared<Report>();
  return {[=](const Batch& batch) { *report = trainer->step(Tokens{batch.first, batch.second}); },
          [=] { return report->loss(); }};
}

/// Returns the recipes from `Precision<BF16Weights>` on.
template <class... More>
Contestant low_precision(const Setting& setting, More... more) {
  return recipe(setting, AdamW8bit{.lr = 1e-3}, Accumulate<4>{}, Checkpoint<Full>{},
                Precision<BF16Weights>{}, more...);
}

Contestant contestant(const Setting& setting) {
  const std::string name = setting.text("recipe");
  const std::filesystem::path folder = setting.text("folder");
  const AdamW adamw{.lr = 1e-3};
  if (name == "optimizer") return recipe(setting, adamw);
  if (name == "accumulate") return recipe(setting, adamw, Accumulate<4>{});
  if (name == "checkpoint") return recipe(setting, adamw, Accumulate<4>{}, Checkpoint<Full>{});
  if (name == "8bit")
    return recipe(setting, AdamW8bit{.lr = 1e-3}, Accumulate<4>{}, Checkpoint<Full>{});
  if (name == "bf16") return low_precision(setting);
  if (name == "state")
    return low_precision(setting, Offload<Disk, OptimizerState>{.folder = folder});
  if (name == "activations")
    return low_precision(setting, Offload<Disk, Activations, OptimizerState>{.folder = folder});
  if (name == "parameters")
    return low_precision(setting, Offload<Disk, Activations, Parameters>{.folder = folder});
  throw std::runtime_error("memory_policies: `" + name + "` is no recipe");
}

/// Returns the largest width at which a model of 12 layers fits into `bytes` with four rows of
/// length 64.
std::int64_t widest(std::int64_t bytes) {
  const std::int64_t context = 64, step = 128;
  auto fits = [&](std::int64_t width) {
    const GPTConfig config{.layers = 12, .width = width, .heads = width / 64, .context = context};
    const auto text = at::empty({4, context}, at::TensorOptions(at::kMeta).dtype(at::kLong));
    const auto make = [&] { return GPT(config); };
    return estimate<Trainer<GPT, AdamW, ClipGradNorm>>(make, Tokens{text, text}).peak <= bytes;
  };
  std::int64_t width = step;
  while (fits(width + step)) width += step;
  return width;
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] {
    if (argc == 3 && std::strcmp(argv[1], "--fits") == 0)
      return std::printf("%lld\n", static_cast<long long>(widest(std::stoll(argv[2])))) < 0;
    const Setting setting(argc, argv);
    if (setting.number("environment")) return bench::print_environment() != 0;
    return bench::serve(setting, contestant(setting)) != 0;
  });
}
