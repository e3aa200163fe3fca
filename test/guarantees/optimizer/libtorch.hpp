#pragma once
// An optimizer of torch::optim as a user writes it, and a training that runs it.
#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "guarantees/zoo.hpp"

namespace guarantees {

namespace optim = torch::optim;

/// An optimizer as a user writes it: the sign of a running mean, in place, with a number.
struct SignumOptions : optim::OptimizerCloneableOptions<SignumOptions> {
  SignumOptions(double lr = 1e-2) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0.9;
  double get_lr() const override { return lr(); }
  void set_lr(const double lr) override { lr_ = lr; }
};
struct SignumState : optim::OptimizerCloneableParamState<SignumState> {
  TORCH_ARG(std::int64_t, step) = 0;
  TORCH_ARG(double, largest) = 0;
  TORCH_ARG(bool, seen) = false;
  TORCH_ARG(at::Tensor, mean);

 public:
  void serialize(torch::serialize::OutputArchive& archive) const override {
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(step);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(largest);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(seen);
    _TORCH_OPTIM_SERIALIZE_TORCH_ARG(mean);
  }
  void serialize(torch::serialize::InputArchive& archive) override {
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(std::int64_t, step);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(double, largest);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(bool, seen);
    _TORCH_OPTIM_DESERIALIZE_TORCH_ARG(at::Tensor, mean);
  }
};
struct Signum : optim::Optimizer {
  using Options = SignumOptions;
  using ParamState = SignumState;
  explicit Signum(const std::vector<optim::OptimizerParamGroup>& groups, SignumOptions defaults)
      : Optimizer(groups, std::make_unique<SignumOptions>(defaults)) {}
  at::Tensor step(LossClosure = nullptr) override {
    int updated = 0;
    for (auto& group : param_groups_) {
      const auto& options = static_cast<SignumOptions&>(group.options());
      for (auto& p : group.params()) {
        if (!p.grad().defined()) continue;
        if (fails_after && updated++ == *fails_after) throw std::runtime_error("no update");
        auto& kept = state_[p.unsafeGetTensorImpl()];
        if (!kept) kept = std::make_unique<SignumState>();
        auto& state = static_cast<SignumState&>(*kept);
        if (!state.mean().defined()) state.mean(at::zeros_like(p));
        state.step(state.step() + 1)
            .seen(true)
            .largest(std::max(state.largest(), p.grad().abs().max().template item<double>()));
        state.mean().lerp_(p.grad(), 1 - options.momentum());
        p.add_(state.mean().sign() * state.largest() / state.step(), -options.lr());
      }
    }
    return {};
  }
  std::optional<int> fails_after;
};

template <class Optimizer, class Options>
LibTorchOptimizer<Optimizer> policy(Options options) {
  return {.options = options};
}
inline Zoo zoo() {
  return seeded([] { return Zoo(Kind::Chain); });
}
inline std::vector<Rows> batches(std::int64_t steps) {
  return class_batches(steps, 6, width, classes);
}

}  // namespace guarantees
