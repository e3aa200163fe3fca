// ctest:
// WGAN-GP (Gulrajani et al., 2017): a generator learns to draw points of eight Gaussians on a ring,
// of which an ordinary GAN loses some. The critic's gradient at points between real and drawn ones
// is held near the norm 1, by a second derivative in its loss.
//
// Each model has a trainer, whose step writes gradients to its own model only. PolynomialLR goes
// down to 0 in a line. EMA averages the generator, and `predict` draws by the average. In PyTorch:
//   two optimizers, zero_grad() and requires_grad_(False)    two trainers
//   torch.autograd.grad(..., create_graph=True)              the same, in an objective
//   loss = fake - real + penalty, and logging of each        Loss::terms
//   AveragedModel(generator, ...), and sampling from it      EMA, predict
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
#include <numbers>
using namespace ikebana;
namespace nn = torch::nn;

constexpr double spread = 0.1;  // the standard deviation of each Gaussian

at::Tensor centres() {
  at::Tensor angle = at::arange(8) * (std::numbers::pi / 4);
  return 2 * at::stack({angle.cos(), angle.sin()}, 1);
}
at::Tensor points(std::int64_t n) {
  return centres().index_select(0, at::randint(8, {n}, at::kLong)) + spread * at::randn({n, 2});
}
at::Tensor noise(std::int64_t n) { return at::randn({n, 2}); }

nn::Sequential net(std::int64_t outputs) {
  return nn::Sequential(nn::Linear(2, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(),
                        nn::Linear(64, outputs));
}

int main() {
  torch::manual_seed(0), torch::set_num_threads(1);  // small nets gain nothing from more
  nn::Sequential generator = net(2), critic = net(1);

  auto criticize = [&](auto& run, nn::Sequential& model, const at::Tensor& real) {
    std::int64_t rows = real.size(0);
    at::Tensor fake = generator->forward(noise(rows)).detach();
    at::Tensor between = at::lerp(fake, real, at::rand({rows, 1})).requires_grad_();
    at::Tensor slope = torch::autograd::grad({run(model, between).sum()}, {between}, {}, true,
                                             /*create_graph=*/true)[0];
    at::Tensor penalty = (slope.norm(2, 1) - 1).square().sum();
    return Loss{.terms = {{"fake", run(model, fake).sum(), rows},
                          {"real", run(model, real).sum(), rows, -1},
                          {"penalty", penalty, rows}}};
  };
  auto persuade = [&](auto& run, nn::Sequential& model, const at::Tensor& z) {
    return Loss{-critic->forward(run(model, z)).sum(), z.size(0)};
  };
  const std::int64_t steps = 800;
  Adam adam{.lr = 2e-3, .betas = {0, 0.9}};
  Trainer critics{critic, criticize, adam, PolynomialLR{.total_iters = 5 * steps}};
  Trainer generators{generator, persuade, adam, PolynomialLR{.total_iters = steps},
                     EMA{.decay = 0.99}};

  for (std::int64_t i = 0; i < steps; ++i) {
    for (int j = 0; j < 5; ++j) critics.step(points(128));
    Report report = generators.step(noise(128));
    if (i % 160 == 0) std::cout << "generator: " << report << '\n';
  }

  at::Tensor drawn = generators.predict(noise(4096));  // drawn by averaged weights
  auto [distance, nearest] = at::cdist(drawn, centres()).min(1);
  at::Tensor share =
      (at::one_hot(nearest, 8) * (distance < 4 * spread).unsqueeze(1)).to(at::kFloat).mean(0);
  double near = share.sum().item<double>(), rarest = share.min().item<double>();
  std::cout << near << " of the points lie near a centre, and " << rarest
            << " near the rarest of the eight (1/8 would be even)\n";
  return near > 0.55 && rarest > 0.03 ? 0 : 1;
}
