// Defines the contestant `offload` on a device: GPT-2 with each choice of `Offload` that gpu.py
// compares, in BF16 with clipping. What the host computes for a device is computed on all its
// cores.
#include <thread>

#include "device.hpp"
#include "train.hpp"
#include "watch.hpp"

namespace {

using namespace ikebana;
using bench::Contestant, bench::Setting;

template <class... Policies>
Contestant gpt(const Setting& setting, Policies... policies) {
  using T = Trainer<GPT, AdamW, ClipGradNorm, Precision<BF16>, bench::Watch, Policies...>;
  const bench::Watch watch{.device = setting.device()};
  Contestant contestant =
      bench::train(std::make_shared<T>(bench::gpt_of(setting), watch, policies...));
  // Returns the bytes that forward keeps for backward, and that the device has in use between
  // steps.
  contestant.own["kept"] = [=] { return std::to_string(watch.bytes->kept); };
  contestant.own["rest"] = [device = setting.device()] {
    bench::synchronize(device);
    return std::to_string(bridge::MemoryCounter(device).now());
  };
  return contestant;
}

Contestant contestant(const Setting& setting) {
  const std::string name = setting.text("recipe");
  if (!setting.device().is_cpu())
    at::set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));
  if (name == "none") return gpt(setting);
  if (name == "activations") return gpt(setting, Offload<CPU, Activations>{});
  if (name == "state") return gpt(setting, Offload<CPU, OptimizerState>{});
  if (name == "parameters") return gpt(setting, Offload<CPU>{});
  throw std::runtime_error("gpu_offload: `" + name + "` is not one of its recipes");
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded(
      [&] { return bench::serve_rows(argc, argv, contestant, bench::answer_on_device); });
}
