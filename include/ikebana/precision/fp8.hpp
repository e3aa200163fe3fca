#pragma once
// The policy Precision<FP8> and its mechanism.
#include <ikebana/detail/message.hpp>
#include <ikebana/precision/autocast.hpp>
#include <ikebana/precision/fp8_linear.hpp>

namespace ikebana {

/// Linear layers in FP8 with one scale per tensor: inputs and weights in E4M3, gradients in E5M2,
/// results in BF16, and gradients of FP32 weights in FP32. Everything else computes as in
/// Precision<BF16>, also linear layers of which a size (rows, inputs or outputs) is not a multiple
/// of 16. Memory: the inputs that linear layers keep for backward take 1 byte per element. Time:
/// that of the hardware's FP8 products; without them, as on most CPUs, many times that of BF16.
/// Gradients of gradients through such a layer throw BadModel. `scaling` is DynamicScaling or
/// DelayedScaling. Source: Micikevicius et al., arXiv:2209.05433; torch._scaled_mm.
template <>
struct Precision<FP8> {
  /// How the scale of a tensor is chosen.
  std::variant<DynamicScaling, DelayedScaling> scaling = DynamicScaling{};
};

template <std::same_as<Precision<FP8>> Policy>
struct Mechanism<Policy> : detail::Autocast<at::kBFloat16> {
  using carries_out = Precision<FP8>;
  Precision<FP8> values;
  explicit Mechanism(Precision<FP8> v) : values(v), scaling_(v.scaling) { check(); }

  void attach(c10::Device where, const UnitTable& table) {
    static constexpr CPUProducts fastest = CPUProducts::Fastest;
    Autocast::attach("Precision<FP8>", where, fastest);
    bridge::LinearScope::install();
    check_products(where);
    layers_ = std::make_shared<detail::FP8Layers<>>(values.scaling, table, where);
  }
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
  std::string describe() const {
    auto* delayed = std::get_if<DelayedScaling>(&values.scaling);
    return "linear layers in Float8 (E4M3, gradients E5M2), " +
           (delayed ? "delayed scaling over " + std::to_string(delayed->amax_history_len) + " steps"
                    : std::string("dynamic scaling")) +
           ", the rest autocast to BFloat16";
  }
  void state(Archive& archive, const Masters&) { layers_->scales->state(archive); }
  template <class Visit>
  void each_number(const Visit& visit) const {
    layers_->scales->each_number(visit);
  }

 private:
  void check() const {
    auto* delayed = std::get_if<DelayedScaling>(&values.scaling);
    if (!delayed || (delayed->amax_history_len >= 1 && std::isfinite(delayed->margin))) return;
    throw BadValue("Precision<FP8>: amax_history_len is " + c10::str(delayed->amax_history_len) +
                   " and margin " + c10::str(delayed->margin) +
                   "; amax_history_len must be 1 or more, and margin finite.");
  }
  /// Computes one product of each kind that training needs, the only way to learn whether LibTorch
  /// has them. Throws BadValue if not.
  static void check_products(c10::Device where) {
    using detail::FP8Role;
    auto one = at::ones({}, at::TensorOptions(where).dtype(at::kFloat));
    auto ones = [&](FP8Role role) {
      return detail::Quantized{at::ones({16, 16}, one.options()).to(detail::fp8_type(role)), one,
                               one};
    };
    try {
      for (auto role : {FP8Role::Input, FP8Role::Gradient})
        for (auto type : {at::kBFloat16, at::kFloat})
          detail::fp8_product(ones(role), ones(FP8Role::Weight), type);
    } catch (const c10::Error& error) {
      throw BadValue("Precision<FP8>: LibTorch has no FP8 products on " + where.str() + " (" +
                     detail::message_of(error) + "). Use Precision<BF16>.");
    }
  }

  std::variant<DynamicScaling, DelayedScaling> scaling_;  // when the trainer was made
  std::shared_ptr<detail::FP8Layers<>> layers_;
};

}  // namespace ikebana
