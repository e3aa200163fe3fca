#pragma once
// An average of the weights in a loop without a trainer.
#include <ikebana/average/ema.hpp>
#include <ikebana/average/swa.hpp>
#include <ikebana/pieces/own_loop.hpp>

namespace ikebana::detail {
/// The model's parameters as the hook `around_evaluation` takes them.
struct OwnParameters {
  Masters all;
  const Masters& masters() const { return all; }
  void mark_stale() const noexcept {}
};
}  // namespace ikebana::detail

namespace ikebana::pieces {

/// An average of a model's parameters by EMA or SWA, in place of
/// torch.optim.swa_utils.AveragedModel. It has no copy of the model: `evaluate` computes with the
/// averages in the model itself. Parameters that require no gradient are not averaged. Make it
/// after the model was moved to its device. Cost: that of the policy in a recipe.
template <class Policy>
class AveragedWeights {
 public:
  /// Keeps the model, which is a module, a holder or a shared pointer, alive.
  template <class Model>
  AveragedWeights(Model& model, Policy policy)
      : mechanism_(std::move(policy)), units_(UnitTable::of(model)), parameters_{masters_of()} {
    mechanism_.attach(ikebana::detail::device_of(module()), units_);
    mechanism_.begin(parameters_.all);
    if constexpr (requires { mechanism_.values.from_initial_weights; })
      if (mechanism_.values.from_initial_weights) prepare();
  }
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

  /// Takes the parameters into the average. Call it after each `optimizer.step()`.
  void update() {
    const StepGradients gradients = prepare();
    mechanism_.after_update(parameters_.all, gradients);
    Report report;
    mechanism_.end_step(gradients, report);
  }
  /// Returns what `f()` returns, while the model's parameters have the averages; afterwards, also
  /// after an exception, they have their former bits. Meanwhile `averages` has the bits of
  /// the parameters.
  template <class F>
  decltype(auto) evaluate(F&& f) {
    return mechanism_.around_evaluation(parameters_, std::forward<F>(f));
  }
  /// The average of each parameter, in the order of `parameters()`, a shared one once; undefined
  /// for a parameter that is not averaged. Empty before the first average.
  const Tensors& averages() const { return mechanism_.averages(); }
  /// The number of updates that were averaged. Waits for the device.
  std::int64_t n_averaged() const { return mechanism_.n_averaged(); }

 private:
  const torch::nn::Module& module() const { return *units_.units()[0].module; }
  Masters masters_of() const { return ikebana::detail::masters_of(module()); }
  StepGradients prepare() {
    const at::NoGradGuard no_grad;
    StepGradients gradients;
    gradients.protocol.updated_in_backward = true;  // all parameters count, as none has a gradient
    mechanism_.prepare(parameters_.all, gradients, [](double lr) { return lr; });
    return gradients;
  }

  Mechanism<Policy> mechanism_;
  UnitTable units_;
  ikebana::detail::OwnParameters parameters_;
};

}  // namespace ikebana::pieces
