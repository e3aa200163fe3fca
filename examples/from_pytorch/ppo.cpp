// Trains by PPO: some epochs of minibatches over one rollout, until the policy has changed enough.
#include "side_by_side.hpp"

namespace ppo {

using namespace ikebana;
namespace nn = torch::nn;

struct ActorCriticImpl : nn::Module {
  nn::Linear body{4, 16}, policy{16, 3}, value{16, 1};
  ActorCriticImpl() {
    register_module("body", body);
    register_module("policy", policy), register_module("value", value);
  }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& observation) {
    at::Tensor x = at::tanh(body(observation));
    return {policy(x).log_softmax(1), value(x).squeeze(1)};
  }
};
TORCH_MODULE(ActorCritic);

struct Rollout {
  at::Tensor observation, action, log_prob, advantage, gain;
};

ActorCritic actor_critic() {
  torch::manual_seed(1);
  return ActorCritic();
}
at::Tensor log_prob_of(const at::Tensor& action, const at::Tensor& log_probs) {
  return log_probs.gather(1, action.unsqueeze(1)).squeeze(1);
}
Rollout play(ActorCritic model) {
  torch::manual_seed(0);
  at::NoGradGuard no_grad;
  at::Tensor seen = at::randn({64, 4}), action = at::randint(3, {64}, at::kLong);
  return {seen, action, log_prob_of(action, model->forward(seen).first), at::randn({64}),
          at::randn({64})};
}

/// The terms of PPO, each summed over the rows.
struct Sums {
  at::Tensor policy, value, entropy, kl;
};
Sums sums(const at::Tensor& log_probs, const at::Tensor& value, const Rollout& r) {
  at::Tensor change = log_prob_of(r.action, log_probs) - r.log_prob, ratio = change.exp();
  at::Tensor clipped = ratio.clamp(0.8, 1.2) * r.advantage;
  return {-at::minimum(ratio * r.advantage, clipped).sum(), (value - r.gain).square().sum(),
          -(log_probs.exp() * log_probs).sum(), (ratio - 1 - change).detach().sum()};
}

std::pair<ActorCritic, int> by_hand() {
  ActorCritic model = actor_critic();
  Rollout rollout = play(model);
  torch::optim::AdamW optimizer(model->parameters(), 3e-3);
  int epoch = 0;
  for (double kl = 0; epoch < 20 && kl < 0.02; ++epoch) {
    for (const at::Tensor& rows : at::randperm(64).split(16)) {
      Rollout r{rollout.observation.index({rows}), rollout.action.index({rows}),
                rollout.log_prob.index({rows}), rollout.advantage.index({rows}),
                rollout.gain.index({rows})};
      auto [log_probs, estimate] = model->forward(r.observation);
      auto [policy, value, entropy, change] = sums(log_probs, estimate, r);
      optimizer.zero_grad();
      ((policy + 0.5 * value - 0.01 * entropy) / 16).backward();
      nn::utils::clip_grad_norm_(model->parameters(), 0.5);
      optimizer.step();
      kl = change.item<double>() / 16;
    }
  }
  return {model, epoch};
}

TEST_CASE("from PyTorch: PPO") {
  ActorCritic model = actor_critic();
  Rollout rollout = play(model);

  auto objective = [](auto& run, ActorCritic& net, const Rollout& r) {
    auto [log_probs, estimate] = run(net, r.observation);
    auto [policy, value, entropy, kl] = sums(log_probs, estimate, r);
    std::int64_t n = r.action.size(0);
    return Loss{.terms = {{"policy", policy, n},
                          {"value", value, n, 0.5},
                          {"entropy", entropy, n, -0.01},
                          {"kl", kl, n, 0}}};
  };
  Trainer trainer{model, objective, AdamW{.lr = 3e-3}, ClipGradNorm{.max_norm = 0.5}};
  int epoch = 0;
  for (double kl = 0; epoch < 20 && kl < 0.02; ++epoch)
    for (const at::Tensor& rows : at::randperm(64).split(16))
      kl = trainer.step(index_select(rollout, rows)).term("kl");

  auto [hand_model, hand_epochs] = by_hand();
  same_end("ppo", model->parameters(), hand_model->parameters(), actor_critic()->parameters());
  CHECK(epoch == hand_epochs);
  CHECK(epoch > 1);
  CHECK(epoch < 20);
}

TEST_CASE("from PyTorch: a step of PPO that is refused before its update") {
  ActorCritic model = actor_critic();
  Rollout rollout = play(model);
  struct TooFar {};
  auto objective = [](auto& run, ActorCritic& net, const Rollout& r) {
    auto [log_probs, estimate] = run(net, r.observation);
    auto [policy, value, entropy, kl] = sums(log_probs, estimate, r);
    if (kl.template item<double>() / 64 >= 0.02) throw TooFar();
    return Loss{policy, r.action.size(0)};
  };
  Trainer trainer{model, objective, AdamW{.lr = 3e-3}};
  StateDict before;
  auto train = [&] {
    for (int i = 0; i < 100; ++i) before = trainer.state(), trainer.step(rollout);
  };
  CHECK_THROWS_AS(train(), TooFar);
  CHECK(trainer.steps() > 1);
  StateDict after = trainer.state();
  for (const auto& [name, tensor] : before) CHECK(test::same_bits(tensor, after.at(name)));
}

}  // namespace ppo
