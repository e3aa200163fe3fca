// Trains by SAC: a critic with a target network, an actor and a temperature, three losses in each
// step.
#include <cmath>
#include <numbers>

#include "side_by_side.hpp"

namespace sac {

using namespace ikebana;
namespace nn = torch::nn;

struct Transitions {
  at::Tensor observation, action, reward, next_observation, done, noise, next_noise;
};
std::vector<Transitions> transitions(int batches) {
  torch::manual_seed(0);
  std::vector<Transitions> all;
  for (int i = 0; i < batches; ++i) {
    Transitions t;
    t.observation = at::randn({32, 4}), t.action = at::rand({32, 2}) * 2 - 1;
    t.reward = at::randn({32}), t.next_observation = at::randn({32, 4});
    t.done = (at::rand({32}) < 0.1).to(at::kFloat);
    at::Tensor noise = at::randn({2, 32, 2});
    t.noise = noise[0], t.next_noise = noise[1];
    all.push_back(t);
  }
  return all;
}

/// A Gaussian that tanh has squashed into (-1, 1): gives actions and their log-probabilities.
struct ActorImpl : nn::Module {
  nn::Linear body = register_module("body", nn::Linear(4, 16));
  nn::Linear mean = register_module("mean", nn::Linear(16, 2));
  nn::Linear log_std = register_module("log_std", nn::Linear(16, 2));
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& observation,
                                            const at::Tensor& noise) {
    at::Tensor x = at::tanh(body(observation)), log = at::tanh(log_std(x));
    at::Tensor action = at::tanh(mean(x) + log.exp() * noise);
    at::Tensor log_prob = -noise.square() / 2 - log - std::log(2 * std::numbers::pi) / 2;
    return {action, (log_prob - (1 - action.square() + 1e-6).log()).sum(1)};
  }
};
TORCH_MODULE(Actor);

/// Two estimates of the gain of an action.
struct CriticImpl : nn::Module {
  nn::Linear body1 = register_module("body1", nn::Linear(6, 16));
  nn::Linear gain1 = register_module("gain1", nn::Linear(16, 1));
  nn::Linear body2 = register_module("body2", nn::Linear(6, 16));
  nn::Linear gain2 = register_module("gain2", nn::Linear(16, 1));
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& observation,
                                            const at::Tensor& action) {
    at::Tensor x = at::cat({observation, action}, 1);
    at::Tensor first = gain1(at::relu(body1(x)));
    return {first.squeeze(1), gain2(at::relu(body2(x))).squeeze(1)};
  }
};
TORCH_MODULE(Critic);

/// A parameter needs a module.
struct TemperatureImpl : nn::Module {
  at::Tensor log_alpha = register_parameter("log_alpha", at::zeros({}));
  at::Tensor alpha() const { return log_alpha.detach().exp(); }
};
TORCH_MODULE(Temperature);

struct Models {
  Actor actor{nullptr};
  Critic critic{nullptr}, target{nullptr};
  Temperature temperature;
  std::vector<at::Tensor> parameters() {
    std::vector<at::Tensor> all;
    for (auto& list : {actor->parameters(), critic->parameters(), target->parameters(),
                       temperature->parameters()})
      all.insert(all.end(), list.begin(), list.end());
    return all;
  }
};
Models new_models() {
  Models m;
  torch::manual_seed(1);
  m.actor = Actor(), m.critic = Critic(), m.target = Critic();
  at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < m.critic->parameters().size(); ++i)
    m.target->parameters()[i].copy_(m.critic->parameters()[i]);
  return m;
}

at::Tensor least(const std::pair<at::Tensor, at::Tensor>& gains) {
  return at::minimum(gains.first, gains.second);
}
/// Returns what the critic is to estimate.
at::Tensor goal_of(Models& m, const Transitions& t) {
  at::NoGradGuard no_grad;
  auto [action, log_prob] = m.actor->forward(t.next_observation, t.next_noise);
  at::Tensor gain =
      least(m.target->forward(t.next_observation, action)) - m.temperature->alpha() * log_prob;
  return t.reward + 0.99 * (1 - t.done) * gain;
}
/// The target network follows the critic.
void follow(Critic& target, Critic& critic) {
  at::NoGradGuard no_grad;
  auto slow = target->parameters(), fast = critic->parameters();
  for (std::size_t i = 0; i < slow.size(); ++i) slow[i].lerp_(fast[i], 0.05);
}

std::vector<at::Tensor> by_hand(const std::vector<Transitions>& loader) {
  Models m = new_models();
  torch::optim::Adam actor_optimizer(m.actor->parameters(), 3e-3),
      critic_optimizer(m.critic->parameters(), 3e-3),
      temperature_optimizer(m.temperature->parameters(), 3e-3);
  for (const Transitions& t : loader) {
    at::Tensor goal = goal_of(m, t), alpha = m.temperature->alpha();
    auto [first, second] = m.critic->forward(t.observation, t.action);
    critic_optimizer.zero_grad();
    (at::mse_loss(first, goal) + at::mse_loss(second, goal)).backward();
    critic_optimizer.step();

    for (auto& p : m.critic->parameters()) p.requires_grad_(false);
    auto [action, log_prob] = m.actor->forward(t.observation, t.noise);
    actor_optimizer.zero_grad();
    (alpha * log_prob - least(m.critic->forward(t.observation, action))).mean().backward();
    actor_optimizer.step();
    for (auto& p : m.critic->parameters()) p.requires_grad_(true);

    temperature_optimizer.zero_grad();
    (-m.temperature->log_alpha * (log_prob.detach() - 2)).mean().backward();
    temperature_optimizer.step();
    follow(m.target, m.critic);
  }
  return m.parameters();
}

TEST_CASE("from PyTorch: SAC") {
  std::vector<Transitions> loader = transitions(30);
  Models m = new_models();
  auto& [actor, critic, target, temperature] = m;

  auto critic_objective = [&](auto& run, Critic& model, const Transitions& t) {
    auto [first, second] = run(model, t.observation, t.action);
    at::Tensor goal = goal_of(m, t);
    at::Tensor sum = at::mse_loss(first, goal, at::Reduction::Sum) +
                     at::mse_loss(second, goal, at::Reduction::Sum);
    return Loss{sum, goal.numel()};
  };
  auto actor_objective = [&](auto& run, Actor& model, const Transitions& t) {
    auto [action, log_prob] = run(model, t.observation, t.noise);
    at::Tensor gain = least(critic->forward(t.observation, action));
    return Loss{(temperature->alpha() * log_prob - gain).sum(), gain.numel(), log_prob};
  };
  auto temperature_objective = [](auto&, Temperature& model, const at::Tensor& log_prob) {
    return Loss{(-model->log_alpha * (log_prob - 2)).sum(), log_prob.numel()};
  };
  Trainer critic_trainer{critic, critic_objective, Adam{.lr = 3e-3}};
  Trainer actor_trainer{actor, actor_objective, Adam{.lr = 3e-3}};
  Trainer temperature_trainer{temperature, temperature_objective, Adam{.lr = 3e-3}};
  for (const Transitions& batch : loader) {
    critic_trainer.step(batch);
    at::Tensor log_prob = actor_trainer.step(batch).outputs;
    temperature_trainer.step(log_prob);
    follow(target, critic);
  }

  same_end("sac", m.parameters(), by_hand(loader), new_models().parameters());
}

}  // namespace sac
