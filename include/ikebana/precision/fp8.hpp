#pragma once
// Defines the policy Precision<FP8> and its mechanism.
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/precision/autocast.hpp>
#include <ikebana/precision/fp8_linear.hpp>

namespace ikebana {

/// Linear layers in FP8 with one scale per tensor: inputs and weights in E4M3, gradients in E5M2,
/// results in BF16, and gradients of FP32 weights in FP32. Everything else computes as in
/// Precision<BF16>, also linear layers with a size (rows, inputs or outputs) that is not a multiple
/// of 16. Memory: the inputs that linear layers keep for backward take 1 byte per element. Time:
/// the time of the hardware's FP8 products; without them, as on most CPUs, many times the time of
/// BF16. Gradients of gradients through such a layer throw BadModel. `scaling` is DynamicScaling or
/// DelayedScaling. Source: Micikevicius et al., arXiv:2209.05433; torch._scaled_mm.
template <>
struct Precision<FP8> {
  /// The choice of each tensor's scale.
  std::variant<DynamicScaling, DelayedScaling> scaling = DynamicScaling{};
};

template <>
struct Mechanism<Precision<FP8>> : detail::Autocast<at::kBFloat16> {
  using carries_out = Precision<FP8>;
  Precision<FP8> values;
  explicit Mechanism(Precision<FP8> v) : values(v), scaling_(v.scaling) { check(); }

  void attach(c10::Device where, const UnitTable& table);
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    detail::check_unchanged(values.scaling == scaling_, "Precision<FP8>: scaling");
    bridge::LinearScope linear(layers_);
    return Autocast::around_forward(std::forward<Next>(next));
  }
  /// Opens the scope once more, since a recompute starts here, on one of autograd's threads.
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    bridge::LinearScope linear(layers_);
    return next(std::forward<Args>(args)...);
  }
  void end_step(const StepGradients&, Report&) noexcept { layers_->scales->end_step(); }
  void abort() noexcept { layers_->scales->abort(); }
  std::string describe() const;
  void state(Archive& archive, const Masters&) { layers_->scales->state(archive); }
  template <class Visit>
  void each_number(const Visit& visit) const {
    layers_->scales->each_number(visit);
  }

 private:
  void check() const;
  /// Computes one product of each kind that training needs, since there is no other way to ask
  /// LibTorch for them. Throws BadValue if LibTorch lacks one.
  static void check_products(c10::Device where);

  std::variant<DynamicScaling, DelayedScaling> scaling_;  // the value when the trainer was made
  std::shared_ptr<detail::FP8Layers> layers_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/fp8.ipp>
#endif
