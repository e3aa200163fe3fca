#pragma once
// Runs an optimizer without a trainer, so that a test can give it any gradients.
#include "shapes.hpp"

namespace guarantees {

template <class... More>
using OptimizersAnd = Choices<AdamW, Adam, SGD, Adagrad, Adafactor, Lion, Muon, SparseAdam,
                              AdamW8bit, RMSprop, NAdam, RAdam, Adamax, Adadelta, ASGD, Rprop, LAMB,
                              Combined<Muon, Lion>, Combined<SparseAdam, Adagrad>, More...>;
template <class Policy>
constexpr bool is_sparse =
    std::is_same_v<Policy, SparseAdam> || std::is_same_v<Policy, Combined<SparseAdam, Adagrad>>;

/// Returns hyperparameters with which every term of an update contributes.
template <class Policy>
Policy lively() {
  Policy policy{};
  if constexpr (requires { policy.rest; }) {
    policy.first = lively<decltype(policy.first)>(), policy.rest = lively<decltype(policy.rest)>();
    if constexpr (requires { policy.first.otherwise; }) policy.first.otherwise = {};
    policy.match = named("linear_weight");
    return policy;
  } else if constexpr (requires { policy.options; }) {
    policy.options.lr(0.05).weight_decay(0.1).momentum(0.5);
  } else {
    policy.lr = 0.05;
  }
  if constexpr (requires { policy.weight_decay; }) policy.weight_decay = 0.1;
  if constexpr (requires { policy.otherwise; }) policy.otherwise.lr = 0.05;
  if constexpr (std::is_same_v<Policy, SGD>) policy.momentum = 0.9;
  if constexpr (std::is_same_v<Policy, Adagrad>) policy.lr_decay = 0.01;
  if constexpr (std::is_same_v<Policy, RMSprop>) policy.momentum = 0.9, policy.centered = true;
  if constexpr (std::is_same_v<Policy, NAdam>) policy.decoupled_weight_decay = true;
  if constexpr (std::is_same_v<Policy, RAdam>) policy.betas[1] = 0.8;  // rectified from step 7 on
  if constexpr (std::is_same_v<Policy, ASGD>) policy.lambd = 0.1, policy.t0 = 2;
  if constexpr (std::is_same_v<Policy, AdamW8bit>) policy.block_size = 16, policy.min_8bit_size = 8;
  return policy;
}

/// Returns the lr of a policy. For two optimizers it is the lr of the first.
template <class Policy>
double& lr_of(Policy& policy) {
  if constexpr (requires { policy.first; }) return policy.first.lr;
  else if constexpr (requires { policy.options; }) return policy.options.lr();
  else return policy.lr;
}

/// Returns the gradient of parameter `i` in step `s`. For SparseAdam it is the gradient of a
/// matrix, in some rows only.
template <class Policy>
at::Tensor gradient_of(const at::Tensor& p, std::size_t i, int s) {
  at::Tensor gradient = pull(p, i, s);
  if (!is_sparse<Policy> || p.dim() != 2) return gradient;
  gradient.select(0, s % p.size(0)).zero_();
  return gradient.to_sparse(1).coalesce();
}

template <class Policy>
struct Opened : Mechanism<Policy> {
  using Mechanism<Policy>::Mechanism;
  void as_elsewhere() {
    if constexpr (requires { this->as_on_device_; }) this->as_on_device_ = true;
  }
};

template <class Policy>
class Alone {
 public:
  Shapes model;
  Masters masters;

  explicit Alone(Policy policy, at::ScalarType type = at::kFloat, bool mixed = false,
                 StateStorage* storage = nullptr)
      : model(type, mixed), mechanism_(policy) {
    masters.storage = storage;
    for (auto& item : model->named_parameters()) {
      masters.names.push_back(item.key());
      masters.values.push_back(item.value());
    }
    mechanism_.begin(masters);
  }
  /// Takes on the CPU the code path of devices whose values the host may not read.
  void as_elsewhere() { mechanism_.as_elsewhere(); }
  /// One update; a parameter with an undefined gradient is skipped.
  void step(const Tensors& gradients, const at::Tensor& divisor = {},
            const at::Tensor& found_inf = {}, double factor = 1) {
    step_at([&](double lr) { return lr * factor; }, gradients, divisor, found_inf);
  }
  /// Does this with any rate, such as a StepRate.
  template <class Rate>
  void step_at(const Rate& rate, const Tensors& gradients, const at::Tensor& divisor = {},
               const at::Tensor& found_inf = {}) {
    StepGradients given;
    given.divisor = divisor, given.found_inf = found_inf;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      if (!gradients[i].defined()) continue;
      given.indices.push_back(i), given.values.push_back(gradients[i].clone());
    }
    mechanism_.prepare(masters, given, rate);
    mechanism_.update(masters, given);
    Report report;
    mechanism_.end_step(given, report);
  }
  /// Returns the gradients of step `s` that `plan` has, times `scale`.
  Tensors gradients(int s, const Plan& plan = always, double scale = 1) const {
    Tensors all;
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      all.push_back(plan(i, s) ? gradient_of<Policy>(masters.values[i], i, s) * scale
                               : at::Tensor());
    return all;
  }
  void run(int from, int to, const Plan& plan = always) {
    for (int s = from; s < to; ++s) step(gradients(s, plan));
  }
  /// Undoes a step that threw.
  void abort() { mechanism_.abort(); }
  /// Returns the tensors of the parameters and of the optimizer's state, without copies.
  StateDict state_view() {
    StateDict dict;
    Archive archive(dict, Archive::Mode::Save);
    exchange(archive);
    return dict;
  }
  /// Returns a copy of the state.
  StateDict state() {
    StateDict dict = state_view();
    for (auto& [name, tensor] : dict) tensor = tensor.clone();
    return dict;
  }
  void restore(StateDict dict) {
    Archive archive(dict, Archive::Mode::Check);
    exchange(archive);
    archive.finish_check();
    exchange(archive);
  }
  Policy& values() { return mechanism_.values; }

 private:
  void exchange(Archive& archive) {
    archive.begin_model();
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      archive.tensor(masters.names[i], masters.values[i]);
    archive.begin_section("optimizer");
    mechanism_.state(archive, masters);
  }

  Opened<Policy> mechanism_;
};

/// All parameters but one have a gradient in the first step, and then each has one only in some
/// steps.
inline bool in_turn(std::size_t i, int s) {
  return s == 0 ? i != 2 : i == 0 || s % (static_cast<int>(i) + 1) == 1;
}

}  // namespace guarantees
