// The contestant `ikebana`: each row of the benchmark is one recipe.
#include "fused_resnet.hpp"
#include "train.hpp"

namespace {

using namespace ikebana;
using bench::Batch, bench::Contestant, bench::Setting, bench::train;

namespace nn = torch::nn;

/// The model of hand_models.hpp, with its layers as units.
struct MLPImpl : nn::Module {
  using units = Units<nn::Linear, nn::GELU>;

  explicit MLPImpl(std::int64_t width) {
    for (auto* layer : {&first, &second, &third})
      *layer = register_module(std::to_string(children().size()), nn::Linear(width, width));
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& input) {
    return run(third, run(gelu, run(second, run(gelu, run(first, input)))));
  }
  nn::Linear first{nullptr}, second{nullptr}, third{nullptr};
  nn::GELU gelu = register_module("gelu", nn::GELU());
};
TORCH_MODULE(MLP);

/// Returns the recipe `Policies...` of either model.
template <class... Policies>
Contestant recipe(const Setting& setting) {
  if (setting.is_gpt()) {
    return train(std::make_shared<Trainer<GPT, AdamW, Policies...>>(bench::gpt_of(setting)));
  }
  MLP model(setting.number("width"));
  bench::read_weights(setting, *model);
  return train(std::make_shared<Trainer<MLP, CrossEntropyLoss, AdamW, Policies...>>(model));
}

template <class P>
Contestant in_precision(const Setting& setting) {
  if (setting.number("accumulate") == 4)
    return recipe<P, Checkpoint<Full>, Accumulate<4>, ClipGradNorm>(setting);
  if (setting.checkpoints()) return recipe<P, Checkpoint<Full>, ClipGradNorm>(setting);
  if (setting.number("clip")) return recipe<P, ClipGradNorm>(setting);
  return recipe<P>(setting);
}

/// Trains on small images, in FP32.
Contestant resnet(const Setting& setting) {
  bench::FusedResNet model(setting.number("width"), setting.symbols());
  bench::read_weights(setting, *model);
  using T = Trainer<bench::FusedResNet, CrossEntropyLoss, AdamW, Layout<ChannelsLast>>;
  return train(std::make_shared<T>(model));
}

Contestant contestant(const Setting& setting) {
  if (setting.is_resnet()) return resnet(setting);
  return setting.is_bf16() ? in_precision<Precision<BF16>>(setting)
                           : in_precision<Precision<FP32>>(setting);
}

}  // namespace

int main(int argc, char** argv) {
  return bench::guarded([&] { return bench::serve_rows(argc, argv, contestant); });
}
