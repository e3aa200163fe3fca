#pragma once
// Defines the policy InspectGradients and its mechanism.
#include <functional>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Shows each gradient of a step between backward and the update, as `p.grad` in PyTorch's loop:
/// calls `hook(name, gradient)` for every parameter that got a gradient, in the model's order.
/// These are the true gradients, over all microbatches and ranks, divided by the count and without
/// the loss scale, and clipped if the recipe names ClipGradNorm before this policy. They have the
/// dtype and the device of the master weights; if masters are cut among ranks, the hook sees the
/// gradients of this rank's rows. The hook is called in each step, also in a skipped step, whose
/// gradients may be infinite or NaN, and again if a step is repeated. The hook may only read: if it
/// changes or keeps a gradient, the step throws BadValue and is undone; an exception of the hook
/// undoes the step, too. Changes no bit of an update. Cost: if gradients must still be divided, one
/// pass over each, into memory that is freed when the hook returns; otherwise only the hook's own.
/// An empty hook is not called.
struct InspectGradients {
  /// A function that is called with each parameter's full name and its gradient, which it may only
  /// read.
  std::function<void(const std::string& name, const at::Tensor& gradient)> hook = {};
};

template <>
struct Mechanism<InspectGradients> : ClipHooks {
  using carries_out = InspectGradients;
  static constexpr bool takes_divisor = true;
  InspectGradients values;
  explicit Mechanism(InspectGradients v) : values(std::move(v)) {}

  void begin(const Masters& masters) { names_ = masters.names; }
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    if (!values.hook) return;
    const at::NoGradGuard no_grad;
    const at::Tensor divisor =
        gradients.divisor.defined() ? gradients.divisor.reshape({}) : at::Tensor();
    std::size_t i = 0;
    gradients.in_windows(/*writes=*/false, [&](const Tensors& some) {
      for (const at::Tensor& value : some) show(names_[gradients.indices[i++]], value, divisor);
    });
  }

 private:
  void show(const std::string& name, const at::Tensor& value, const at::Tensor& divisor) const;

  std::vector<std::string> names_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/clip/impl/inspect_gradients.ipp>
#endif
