// ctest:
// SAC (Haarnoja et al., 2018) swings up pendulums. Two critics, the outputs of one net, an actor,
// and the temperature that holds its entropy have a trainer each. In PyTorch:
//   a target network, slow.lerp_(fast, 0.01) after each step    EMA, with which predict computes
//   critic.requires_grad_(False) while the actor learns         a step has gradients of its model
//   only zero_grad(), backward() and step() of three optimizers      step of three trainers
#include <torch/torch.h>

#include <cmath>
#include <ikebana.hpp>
#include <iostream>
#include <numbers>
using namespace ikebana;
namespace nn = torch::nn;

struct Transitions {
  at::Tensor observation, action, value, next;  // (N, 16, ...): N times of 16 pendulums
  double reward(std::int64_t episode) const {
    return 10 * value.narrow(0, 200 * episode, 200).sum(0).mean().item<double>();
  }
};

/// Gymnasium's Pendulum-v1, `n` at once.
struct Pendulums {
  at::Tensor angle, spin;  // 0 is upright
  explicit Pendulums(std::int64_t n)
      : angle((2 * at::rand({n, 1}) - 1) * std::numbers::pi), spin(2 * at::rand({n, 1}) - 1) {}
  at::Tensor observation() const { return at::cat({angle.cos(), angle.sin(), spin}, 1); }
  at::Tensor step(const at::Tensor& action) {  // from -1 to 1; returns the rewards
    at::Tensor off = at::atan2(angle.sin(), angle.cos());
    at::Tensor cost = off.square() + 0.1 * spin.square() + 0.004 * action.square();
    spin = (spin + 0.05 * (15 * angle.sin() + 6 * action)).clamp(-8, 8);
    angle = angle + 0.05 * spin;
    return -cost;
  }
};

nn::Sequential net(std::int64_t inputs, std::int64_t outputs) {
  return nn::Sequential(nn::Linear(inputs, 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(),
                        nn::Linear(64, outputs));
}
struct ActorImpl : nn::Module {
  nn::Sequential body = register_module("body", net(3, 2));
  /// Draws actions from a normal distribution, squashed by tanh, with their log-probabilities.
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& observation) {
    at::Tensor out = body->forward(observation), log_std = out.narrow(-1, 1, 1).clamp(-5, 2);
    at::Tensor noise = at::randn_like(log_std), x = out.narrow(-1, 0, 1) + log_std.exp() * noise;
    at::Tensor log_prob = 2 * (x + at::softplus(-2 * x)) - noise.square() / 2 - log_std;
    return {x.tanh(), log_prob - std::log(4 * std::sqrt(2 * std::numbers::pi))};
  }
};
TORCH_MODULE(Actor);
struct TemperatureImpl : nn::Module {  // a parameter needs a module
  at::Tensor log_alpha = register_parameter("log_alpha", at::zeros({}));
  Loss loss(auto&, const at::Tensor& log_prob) {  // the entropy's goal is -1
    return {(log_alpha * (1 - log_prob)).sum(), log_prob.numel()};
  }
};
TORCH_MODULE(Temperature);
constexpr std::int64_t episodes = 8, steps = 200 * episodes;

int main() {
  torch::manual_seed(0), torch::set_num_threads(1);  // small nets gain nothing from more
  nn::Sequential critic = net(4, 2);
  Temperature temperature;
  auto alpha = [&] { return temperature->log_alpha.detach().exp(); };
  auto estimate = [](auto& run, nn::Sequential& model, const Transitions& t) {
    at::Tensor error = run(model, at::cat({t.observation, t.action}, -1)) - t.value;
    return Loss{error.square().sum(), t.value.numel()};
  };
  auto act = [&](auto& run, Actor& model, const at::Tensor& observation) {
    auto [action, log_prob] = run(model, observation);
    at::Tensor value = critic->forward(at::cat({observation, action}, -1)).amin(-1, true);
    return Loss{(alpha() * log_prob - value).sum(), value.numel(), log_prob};
  };
  EMA follow{.decay = 0.99, .from_initial_weights = true};
  Trainer critics{critic, estimate, Adam{.lr = 2e-3}, follow};
  Trainer actors{Actor(), act, Adam{.lr = 2e-3}};
  Trainer temperatures{temperature, Adam{.lr = 5e-3}};

  auto room = [](std::int64_t n) { return at::zeros({steps, 16, n}); };
  Transitions memory{room(3), room(1), room(1), room(3)};
  Pendulums all(16);
  for (std::int64_t i = 0; i < steps; ++i) {
    if (i % 200 == 0) all = Pendulums(16);
    memory.observation[i] = all.observation();
    memory.action[i] = actors.predict(all.observation()).first;
    memory.value[i] = all.step(memory.action[i]) / 10;  // the reward alone
    memory.next[i] = all.observation();

    Transitions some = index_select(memory, at::randint(i + 1, {16}, at::kLong));
    auto [action, log_prob] = actors.predict(some.next);
    at::Tensor later = critics.predict(at::cat({some.next, action}, -1)).amin(-1, true);
    some.value += 0.98 * (later - alpha() * log_prob);
    critics.step(some), temperatures.step(actors.step(some.observation).outputs);
    if (i % 200 == 199)
      std::cout << "episode " << i / 200 << "  reward " << memory.reward(i / 200) << '\n';
  }
  return memory.reward(0) < -800 && memory.reward(episodes - 1) > -500 ? 0 : 1;
}
