// ctest:
// PPO (Schulman et al., 2017) learns to balance poles on 64 carts at once. ClipGradNorm and a rate
// that goes down to 0 are usual for it. In PyTorch:
//   policy_loss + 0.5 * value_loss - 0.01 * entropy, and logging of each    Loss::terms
//   tuple(x[rows] for x in rollout)                                         index_select
//   with torch.no_grad(): model(observation)                                predict
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

/// Gymnasium's CartPole-v1, `n` carts at once, each of which starts again when its pole has fallen.
struct Carts {
  at::Tensor state;  // (n, 4): place, speed, angle, and the angle's speed
  explicit Carts(std::int64_t n) : state(start(n)) {}
  static at::Tensor start(std::int64_t n) { return 0.1 * at::rand({n, 4}) - 0.05; }
  /// Pushes each cart to the left (0) or to the right (1). Returns 1 if a pole has fallen.
  at::Tensor step(const at::Tensor& action) {
    at::Tensor speed = state.select(1, 1), angle = state.select(1, 2), spin = state.select(1, 3);
    at::Tensor push = (20 * action - 10 + 0.05 * spin.square() * angle.sin()) / 1.1;
    at::Tensor turn =
        (9.8 * angle.sin() - angle.cos() * push) / (2.0 / 3 - 0.05 / 1.1 * angle.cos().square());
    at::Tensor pull = push - 0.05 / 1.1 * turn * angle.cos();
    state = state + 0.02 * at::stack({speed, pull, spin, turn}, 1);
    at::Tensor fallen = (state.abs() > at::tensor({2.4, 9e9, 0.2095, 9e9})).any(1, true);
    state = at::where(fallen, start(state.size(0)), state);
    return fallen.squeeze(1).to(at::kFloat);
  }
};

struct ActorCriticImpl : nn::Module {
  nn::Sequential actor = register_module("actor", body(2));
  nn::Sequential critic = register_module("critic", body(1));
  static nn::Sequential body(std::int64_t outputs) {
    return nn::Sequential(nn::Linear(4, 64), nn::Tanh(), nn::Linear(64, 64), nn::Tanh(),
                          nn::Linear(64, outputs));
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& observation) {
    return {actor->forward(observation).log_softmax(1), critic->forward(observation).squeeze(1)};
  }
};
TORCH_MODULE(ActorCritic);
struct Rollout {
  at::Tensor observation, action, log_prob, advantage, gain, fallen;
};
at::Tensor chosen(const at::Tensor& log_probs, const at::Tensor& action) {
  return log_probs.gather(1, action.unsqueeze(1)).squeeze(1);
}
/// Plays some steps, each worth 0.01, and estimates the advantages of its actions (GAE).
Rollout play(auto& trainer, Carts& carts, std::int64_t steps) {
  std::vector<at::Tensor> seen, actions, log_probs, values, fallen;
  for (std::int64_t i = 0; i < steps; ++i) {
    auto [log_prob, value] = trainer.predict(carts.state);
    at::Tensor action = log_prob.exp().multinomial(1).squeeze(1);
    seen.push_back(carts.state), actions.push_back(action), values.push_back(value);
    log_probs.push_back(chosen(log_prob, action)), fallen.push_back(carts.step(action));
  }
  at::Tensor next = trainer.predict(carts.state).second, sum = at::zeros_like(next);
  std::vector<at::Tensor> advantages = values;
  for (std::size_t i = values.size(); i-- > 0; next = values[i]) {
    at::Tensor goes_on = 0.99 * (1 - fallen[i]);
    advantages[i] = sum = 0.01 + goes_on * next - values[i] + 0.95 * goes_on * sum;
  }
  at::Tensor all = at::cat(advantages), gain = all + at::cat(values);
  all = (all - all.mean()) / all.std();
  return {at::cat(seen), at::cat(actions), at::cat(log_probs), all, gain, at::cat(fallen)};
}
double steps_per_fall(const Rollout& r) {
  return static_cast<double>(rows(r)) / (1 + r.fallen.sum().item<double>());
}

int main() {
  torch::manual_seed(0), torch::set_num_threads(1);  // small nets gain nothing from more
  auto objective = [](auto& run, ActorCritic& model, const Rollout& r) {
    auto [log_probs, value] = run(model, r.observation);
    at::Tensor change = chosen(log_probs, r.action) - r.log_prob, ratio = change.exp();
    at::Tensor gain = at::minimum(ratio * r.advantage, ratio.clamp(0.8, 1.2) * r.advantage);
    return Loss{.terms = {{"policy", gain.sum(), rows(r), -1},
                          {"value", (value - r.gain).square().sum(), rows(r), 0.5},
                          {"entropy", -(log_probs.exp() * log_probs).sum(), rows(r), -0.01},
                          {"kl", (ratio - 1 - change).detach().sum(), rows(r), 0}}};
  };
  Trainer trainer{ActorCritic(), objective, Adam{.lr = 2e-3}, PolynomialLR{.total_iters = 800},
                  ClipGradNorm{.max_norm = 0.5}};
  Carts carts(64), others(64);
  const double untrained = steps_per_fall(play(trainer, others, 200));
  for (int i = 0; i < 50; ++i) {
    Rollout rollout = play(trainer, carts, 64);
    Report report;
    for (int epoch = 0; epoch < 4; ++epoch)
      for (const at::Tensor& some : at::randperm(rows(rollout)).split(1024))
        report = trainer.step(index_select(rollout, some));
    if (i % 10 == 9) std::cout << report << '\n';
  }
  const double trained = steps_per_fall(play(trainer, others, 500));
  std::cout << "a pole falls after " << trained << " steps, untrained " << untrained << '\n';
  return trained > 300 && untrained < 60 ? 0 : 1;
}
