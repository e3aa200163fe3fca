// ctest:
// DDPM (Ho et al., 2020): a small U-Net learns to tell an image from the noise in it, and then
// draws images from noise alone, step by step: frames, crosses and bars at nine places.
//
// The objective draws the times and the noise; a step that fails, and a resumed run, draw the same
// again. `predict` draws by the weights that EMA averages. In PyTorch:
//   F.mse_loss(model(noisy, t), noise)                               Loss{sum, count}
//   ema.update(model) after each step, a copy to draw with           EMA, predict
//   SequentialLR([LinearLR, CosineAnnealingLR]), scheduler.step()    .warmup_steps, no call
//   clip_grad_norm_(model.parameters(), 1.0)                         ClipGradNorm
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;
using Conv = nn::Conv2dOptions;

constexpr std::int64_t T = 50;

/// Returns all images, (27, 1, 8, 8), of -1 and 1: three shapes at nine places.
at::Tensor all_images() {
  at::Tensor shape = at::full({3, 4, 4}, -1), images = at::full({27, 1, 8, 8}, -1.0);
  shape[0] = 1 - 2 * at::constant_pad_nd(at::ones({2, 2}), {1, 1, 1, 1});
  shape[1].narrow(0, 1, 2).fill_(1), shape[1].narrow(1, 1, 2).fill_(1);
  shape[2].narrow(0, 1, 2).fill_(1);
  for (std::int64_t i = 0; i < 27; ++i)
    images[i][0].narrow(0, i / 9 * 2, 4).narrow(1, i / 3 % 3 * 2, 4).copy_(shape[i % 3]);
  return images;
}

struct DenoiserImpl : nn::Module {
  nn::Conv2d in = register_module("first", nn::Conv2d(Conv(1, 16, 3).padding(1)));
  nn::Linear time = register_module("time", nn::Linear(16, 32));
  nn::Conv2d down = register_module("down", nn::Conv2d(Conv(16, 32, 4).stride(2).padding(1)));
  nn::Conv2d middle = register_module("middle", nn::Conv2d(Conv(32, 32, 3).padding(1)));
  nn::Linear all = register_module("all", nn::Linear(512, 512));
  nn::ConvTranspose2d up = register_module(
      "up", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(32, 16, 4).stride(2).padding(1)));
  nn::Conv2d out = register_module("out", nn::Conv2d(Conv(32, 1, 3).padding(1)));

  /// Returns the noise in `image` at the times `t`, (N), of 0 to T - 1.
  at::Tensor forward(const at::Tensor& image, const at::Tensor& t) {
    at::Tensor phase = t.unsqueeze(1) * at::logspace(0, -2, 8);
    at::Tensor when = time(at::cat({phase.sin(), phase.cos()}, 1)).unsqueeze(2).unsqueeze(3);
    at::Tensor wide = at::silu(in(image)), x = at::silu(down(wide) + when);
    x = x + at::silu(middle(x));
    x = x + at::silu(all(x.flatten(1))).view_as(x);
    return out(at::cat({wide, at::silu(up(x))}, 1));
  }
};
TORCH_MODULE(Denoiser);

/// Returns images that the trainer's averaged model draws.
at::Tensor draw(auto& trainer, const at::Tensor& beta, const at::Tensor& kept, std::int64_t n) {
  at::Tensor x = at::randn({n, 1, 8, 8});
  for (std::int64_t t = T - 1; t >= 0; --t) {
    at::Tensor noise = trainer.predict(x, at::full({n}, t));
    x = (x - beta[t] / (1 - kept[t]).sqrt() * noise) / (1 - beta[t]).sqrt();
    if (t > 0) x = x + beta[t].sqrt() * at::randn_like(x);
  }
  return x;
}

int main() {
  torch::manual_seed(0), torch::set_num_threads(1);  // small nets gain nothing from more
  const at::Tensor images = all_images(), beta = at::linspace(1e-3, 0.25, T);
  const at::Tensor kept = (1 - beta).cumprod(0);  // how much of an image is left at each time

  auto objective = [&](auto& run, Denoiser& model, const at::Tensor& image) {
    at::Tensor t = at::randint(T, {image.size(0)}, at::kLong), noise = at::randn_like(image);
    at::Tensor left = kept.index_select(0, t).view({-1, 1, 1, 1});
    at::Tensor found = run(model, left.sqrt() * image + (1 - left).sqrt() * noise, t);
    return Loss{at::mse_loss(found, noise, at::Reduction::Sum), noise.numel()};
  };
  Trainer trainer{Denoiser(),
                  objective,
                  AdamW{.lr = 4e-3},
                  EMA{.decay = 0.99},
                  CosineAnnealingLR{.T_max = 650, .warmup_steps = 50},
                  ClipGradNorm{}};
  for (int i = 0; i < 700; ++i) {
    Report report = trainer.step(images.index_select(0, at::randint(27, {64}, at::kLong)));
    if (i % 100 == 0) std::cout << report << '\n';
  }

  at::Tensor drawn = draw(trainer, beta, kept, 128).sign();
  // The number of the 64 pixels differ from the nearest image of the data
  auto [differ, nearest] = at::cdist(drawn.flatten(1), images.flatten(1), 1).min(1);
  at::Tensor right = differ / 2 < 3;
  double share = right.to(at::kFloat).mean().item<double>();
  std::int64_t kinds = std::get<0>(at::_unique(nearest.masked_select(right))).numel();
  std::cout << share << " of the drawn images are images of the data up to 2 pixels, " << kinds
            << " different ones\n";
  return share > 0.7 && kinds > 18 ? 0 : 1;
}
