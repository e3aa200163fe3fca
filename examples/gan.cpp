// ctest:
// Trains a GAN with two trainers, each with the other's model in its loss: the generator learns to
// sample from a normal distribution. A step writes gradients to its own trainer's parameters only,
// so nothing is frozen or zeroed by hand.
#include <torch/torch.h>

#include <cmath>
#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
using torch::nn::Linear, torch::nn::ReLU, torch::nn::Sequential;

struct Samples {
  at::Tensor real, noise;
};

/// Returns the binary cross-entropy of a critic's logits with the label `is_real`, summed over the
/// rows.
at::Tensor error(const at::Tensor& logits, bool is_real) {
  at::Tensor label = at::full_like(logits, is_real ? 1 : 0);
  return at::binary_cross_entropy_with_logits(logits, label, {}, {}, at::Reduction::Sum);
}

int main() {
  torch::manual_seed(0);
  Sequential generator(Linear(4, 32), ReLU(), Linear(32, 1));
  Sequential critic(Linear(1, 32), ReLU(), Linear(32, 32), ReLU(), Linear(32, 1));

  auto criticize = [&](auto& run, Sequential& model, const Samples& s) {
    at::Tensor fake = generator->forward(s.noise).detach();
    std::int64_t rows = s.real.size(0);
    return Loss{.terms = {{"real", error(run(model, s.real), true), rows},
                          {"fake", error(run(model, fake), false), rows}}};
  };
  auto deceive = [&](auto& run, Sequential& model, const Samples& s) {
    return Loss{error(critic->forward(run(model, s.noise)), true), s.noise.size(0)};
  };
  AdamW adam{.lr = 2e-3, .betas = {0.5, 0.9}};
  Trainer critics{critic, adam, criticize, ClipGradNorm{}};
  Trainer generators{generator, adam, deceive};

  for (int i = 0; i <= 1500; ++i) {
    Samples samples{3 + 0.5 * at::randn({128, 1}), at::randn({128, 4})};
    Report criticized = critics.step(samples), deceived = generators.step(samples);
    if (i % 300 == 0) std::cout << "critic: " << criticized << "\ngenerator: " << deceived << '\n';
  }
  at::NoGradGuard no_grad;
  at::Tensor drawn = generator->forward(at::randn({4096, 4}));
  double mean = drawn.mean().item<double>(), spread = drawn.std().item<double>();
  std::cout << "drawn: mean " << mean << " (3), standard deviation " << spread << " (0.5)\n";
  return std::abs(mean - 3) < 0.6 && std::abs(spread - 0.5) < 0.3 ? 0 : 1;
}
