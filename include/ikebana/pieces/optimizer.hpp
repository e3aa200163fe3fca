#pragma once
// An optimizer of the library in a loop without a trainer.
#include <ikebana/hooks.hpp>
#include <ikebana/pieces/own_loop.hpp>

namespace ikebana::pieces {

/// The optimizer of a policy, such as `Optimizer<AdamW>`, with the calls of torch::optim. It does
/// in a step what the policy does in a recipe: AdamW calls one fused operator for all parameters of
/// a group. A step that throws leaves the parameters as they were. The header of the policy, such
/// as `ikebana/optimizer/adamw.hpp`, is included by the program. InBackward is not for it.
template <class Policy>
class Optimizer {
 public:
  /// Updates the parameters of a model, which is a module, a holder or a shared pointer, and keeps
  /// it alive. Make it after the model was moved to its device.
  template <class Model>
  explicit Optimizer(Model& model, Policy policy = {})
      : mechanism_(std::move(policy)),
        units_(UnitTable::of(model)),
        parameters_(ikebana::detail::masters_of(*units_.units()[0].module)) {
    mechanism_.attach(ikebana::detail::device_of(*units_.units()[0].module), units_);
    mechanism_.begin(parameters_);
  }
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates the parameters that have a gradient.
  void step() {
    step([](double lr) { return lr; });
  }
  /// Updates them with the learning rate `rate(lr)` for the base rate `lr`. `rate` is a callable,
  /// or `StepRate(schedule, step)`.
  template <class Rate>
  void step(const Rate& rate) {
    const at::NoGradGuard no_grad;
    StepGradients gradients;
    gradients.collect(parameters_.values);
    try {
      mechanism_.prepare(parameters_, gradients, rate);
      mechanism_.update(parameters_, gradients);
    } catch (...) {
      mechanism_.abort();
      throw;
    }
    Report report;
    mechanism_.end_step(gradients, report);
  }
  /// Frees all gradients.
  void zero_grad() {
    for (const at::Tensor& parameter : parameters_.values) parameter.mutable_grad().reset();
  }
  /// The parameters, a shared one once.
  const Tensors& parameters() const { return parameters_.values; }
  /// The policy with its numbers, which may be changed between steps.
  Policy& values() { return mechanism_.values; }

 private:
  Mechanism<Policy> mechanism_;
  UnitTable units_;
  Masters parameters_;
};

}  // namespace ikebana::pieces
