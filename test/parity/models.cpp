// Runs the models of examples/ in double precision: their loss, and the gradients of all
// parameters.
#include <models/models.hpp>

#include "table.hpp"

namespace parity {

namespace {

/// Writes parameters, a batch, the loss and the gradients. Parameters are moved, so that none is
/// zero or one and hides what it is multiplied with.
template <class Model, class Config, class Batch>
void write_model(const std::string& path, const Config& config, Batch batch) {
  Model model(config);
  model->to(at::kDouble);
  for (auto& p : model->parameters()) p.data().add_(at::randn_like(p), 0.05);
  StateDict file;
  ikebana::detail::for_each_part(batch, [&](at::Tensor& t, auto&& name) {
    if (t.is_floating_point()) t = t.to(at::kDouble);
    file["batch." + name()] = t;
  });
  const Loss loss = model->loss(plain, batch);
  loss.sum.backward();
  for (auto& item : model->named_parameters()) {
    const at::Tensor gradient = item.value().grad();
    file["parameter." + item.key()] = item.value().detach();
    file["gradient." + item.key()] = gradient.is_sparse() ? gradient.to_dense() : gradient;
  }
  file["loss"] = loss.sum.detach();
  save_tensors(path, file, {});
}

}  // namespace

void write_models(const std::string& folder) {
  torch::manual_seed(3);
  auto path = [&](const std::string& name) { return folder + "/" + name + ".safetensors"; };
  const ViTConfig vit{.image = 8, .layers = 2, .width = 16, .heads = 2};
  const MixerConfig mixer{.image = 8, .layers = 2, .width = 16, .channels_width = 32};
  const ResNetConfig resnet{.blocks = 2, .stages = 2, .width = 4};
  const UNetConfig unet{.width = 4, .depth = 2};
  const LSTMConfig lstm{.vocabulary = 20, .width = 8};
  const DLRMConfig dlrm{.width = 4, .rows = {7, 5, 9}, .bottom = {8}, .top = {8}};
  write_model<ViT>(path("vit"), vit, random_batch(vit, 3));
  write_model<Mixer>(path("mixer"), mixer, random_batch(mixer, 3));
  write_model<::ResNet>(path("resnet"), resnet, random_batch(resnet, 3, 8));
  write_model<UNet>(path("unet"), unet, random_batch(unet, 2, 8));
  write_model<LSTMLanguageModel>(path("lstm"), lstm, random_batch(lstm, 3, 7));
  write_model<DLRM>(path("dlrm"), dlrm, random_batch(dlrm, 6, 2));
}

}  // namespace parity
