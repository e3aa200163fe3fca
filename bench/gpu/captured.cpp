// Defines the contestant `captured` on a device: the recipes of `ikebana` without Checkpoint, with
// Capture<WholeStep>.
#include <ikebana/capture.hpp>

#include "device.hpp"
#include "mlp.hpp"
#include "resnet.hpp"
#include "train.hpp"

namespace {

using namespace ikebana;
using bench::Contestant, bench::MLP, bench::ResNet, bench::Setting, bench::train;

const Precision<BF16> bf16{.cpu_products = CPUProducts::Native};

template <class Model>
Contestant classifier(const Setting& setting, Model model) {
  bench::read_weights(setting, *model);
  using T =
      Trainer<Model, CrossEntropyLoss, AdamW, ClipGradNorm, Precision<BF16>, Capture<WholeStep>>;
  return train(std::make_shared<T>(model, bf16));
}

Contestant contestant(const Setting& setting) {
  if (setting.is_resnet())
    return classifier(
        setting, ResNet(setting.number("width"), setting.symbols(), setting.has_small_images()));
  if (!setting.is_gpt()) return classifier(setting, MLP(setting.number("width")));
  using T = Trainer<GPT, AdamW, ClipGradNorm, Precision<BF16>, Accumulate<>, Capture<WholeStep>>;
  return train(std::make_shared<T>(bench::gpt_of(setting),
                                   Accumulate<>{setting.number("accumulate")}, bf16));
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded(
      [&] { return bench::serve_rows(argc, argv, contestant, bench::answer_on_device); });
}
