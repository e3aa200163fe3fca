// Measures rows of the models of images.
#include <models/mlp_mixer.hpp>
#include <models/resnet.hpp>
#include <models/unet.hpp>
#include <models/vit.hpp>

#include "measure.hpp"
#include "models.hpp"

bool bench::vision_rows() {
  bool all = rows_of<ViT>("ViT", ViTConfig{.width = 96}, 32);
  all &= rows_of<Mixer>("MLP-Mixer", MixerConfig{}, 32);
  all &= rows_of<ResNet>("ResNet", ResNetConfig{}, 64, 32);
  return rows_of<UNet>("U-Net", UNetConfig{}, 16, 64) && all;
}
