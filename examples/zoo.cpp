// ctest:
// Trains each model of models/ on one batch under two recipes, and prints how far the loss falls.
// With batch norm, two parts of a batch are not the whole: each has statistics of its own.
#include <torch/torch.h>

#include <cstdio>
#include <ikebana.hpp>
#include <vector>

#include "models/models.hpp"
using namespace ikebana;

constexpr int steps = 12;

struct Losses {
  double before, after;
};
/// Returns the losses in evaluation, before and after `steps` steps. Every recipe starts from the
/// same weights.
template <class Model, class... Policies, class Config, class Batch>
Losses losses(const Config& config, const Batch& batch, Policies... policies) {
  torch::manual_seed(0);
  Trainer trainer{Model(config), policies...};
  const std::vector batches{batch};
  const double before = trainer.evaluate(batches).loss;
  for (int i = 0; i < steps; ++i) trainer.step(batch);
  return {before, trainer.evaluate(batches).loss};
}

/// Prints a row. Returns false if a recipe does not lower the loss.
template <class Model, class Optimizer = AdamW, class Config, class Batch>
bool row(const char* name, const Config& config, const Batch& batch) {
  Model model(config);
  long long parameters = 0;
  for (const auto& p : model->parameters()) parameters += p.numel();
  const auto units = UnitTable::of(model).units().size() - 1;  // the first is the model itself

  const Optimizer optimizer{.lr = 2e-3};
  const auto [before, after] = losses<Model>(config, batch, optimizer);
  const double parts = losses<Model>(config, batch, optimizer, Precision<BF16>{},
                                     Checkpoint<Full>{}, Accumulate<2>{})
                           .after;
  std::printf("%-12s%12lld%7zu%9.4f%9.4f%22.4f\n", name, parameters, units, before, after, parts);
  return after < before && parts < before;
}

int main() {
  const GPTConfig gpt{.layers = 2, .width = 64};
  LlamaConfig llama{.hidden_size = 64, .intermediate_size = 176};
  llama.num_hidden_layers = 2;
  const ViTConfig vit{.image = 16, .layers = 2, .width = 96};
  const MixerConfig mixer{.image = 16, .layers = 2, .width = 64, .channels_width = 256};
  const ResNetConfig resnet{.blocks = 1};
  const UNetConfig unet{.width = 8, .depth = 2};
  const LSTMConfig lstm{.width = 64};
  const DLRMConfig dlrm{.bottom = {64}, .top = {64}};

  std::printf("%-12s%12s%7s%9s%9s%22s\n", "model", "parameters", "units", "before", "after",
              "BF16, Full, 2 parts");
  torch::manual_seed(1);
  const bool all[] = {
      row<GPT>("GPT", gpt, random_batch(gpt, 4, 32)),
      row<Llama>("Llama", llama, random_batch(llama, 4, 32)),
      row<ViT>("ViT", vit, random_batch(vit, 16)),
      row<Mixer>("MLP-Mixer", mixer, random_batch(mixer, 16)),
      row<ResNet>("ResNet", resnet, random_batch(resnet, 16, 16)),
      row<UNet>("U-Net", unet, random_batch(unet, 4, 16)),
      row<LSTMLanguageModel>("LSTM", lstm, random_batch(lstm, 4, 32)),
      row<DLRM, SparseAdam>("DLRM", dlrm, random_batch(dlrm, 32)),
  };
  for (const bool fell : all)
    if (!fell) return 1;
  return 0;
}
