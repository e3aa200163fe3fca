// Trains a GAN: two models, two optimizers, and each model in the other's loss.
#include "side_by_side.hpp"

namespace gan {

using namespace ikebana;
namespace nn = torch::nn;

struct Samples {
  at::Tensor real, noise;
};
std::vector<Samples> samples(int batches) {
  torch::manual_seed(0);
  std::vector<Samples> all;
  for (int i = 0; i < batches; ++i) all.push_back({3 + at::randn({8, 2}), at::randn({8, 4})});
  return all;
}

nn::Sequential new_generator() {
  torch::manual_seed(1);
  nn::Linear first(4, 16), second(16, 2);
  return nn::Sequential(first, nn::ReLU(), second);
}
nn::Sequential new_critic() {
  torch::manual_seed(2);
  nn::Linear first(2, 16), second(16, 1);
  return nn::Sequential(first, nn::ReLU(), second);
}
std::vector<at::Tensor> parameters_of(nn::Sequential& generator, nn::Sequential& critic) {
  std::vector<at::Tensor> all = generator->parameters();
  for (at::Tensor& p : critic->parameters()) all.push_back(p);
  return all;
}

/// Returns the binary cross-entropy of the critic's logits with the label `is_real`, summed over
/// the rows.
at::Tensor error(const at::Tensor& logits, bool is_real) {
  at::Tensor label = at::full_like(logits, is_real ? 1 : 0);
  return at::binary_cross_entropy_with_logits(logits, label, {}, {}, at::Reduction::Sum);
}

std::vector<at::Tensor> by_hand(const std::vector<Samples>& loader) {
  nn::Sequential generator = new_generator(), critic = new_critic();
  torch::optim::AdamW generator_optimizer(generator->parameters(), 1e-2),
      critic_optimizer(critic->parameters(), 1e-2);
  for (const auto& [real, noise] : loader) {
    critic_optimizer.zero_grad();
    at::Tensor fake = generator->forward(noise).detach();
    at::Tensor sum = error(critic->forward(real), true) + error(critic->forward(fake), false);
    (sum / 8).backward();
    critic_optimizer.step();
    generator_optimizer.zero_grad();
    (error(critic->forward(generator->forward(noise)), true) / 8).backward();
    generator_optimizer.step();
  }
  return parameters_of(generator, critic);
}

TEST_CASE("from PyTorch: a GAN") {
  std::vector<Samples> loader = samples(30);
  nn::Sequential generator = new_generator(), critic = new_critic();

  auto critic_objective = [&](auto& run, nn::Sequential& model, const Samples& s) {
    at::Tensor fake = generator->forward(s.noise).detach();
    at::Tensor sum = error(run(model, s.real), true) + error(run(model, fake), false);
    return Loss{sum, s.real.size(0)};
  };
  auto generator_objective = [&](auto& run, nn::Sequential& model, const Samples& s) {
    return Loss{error(critic->forward(run(model, s.noise)), true), s.noise.size(0)};
  };
  Trainer critic_trainer{critic, critic_objective, AdamW{.lr = 1e-2}};
  Trainer generator_trainer{generator, generator_objective, AdamW{.lr = 1e-2}};
  for (const Samples& batch : loader) {
    critic_trainer.step(batch);
    generator_trainer.step(batch);
  }

  nn::Sequential first = new_generator(), second = new_critic();
  same_end("gan", parameters_of(generator, critic), by_hand(loader), parameters_of(first, second));
}

}  // namespace gan
