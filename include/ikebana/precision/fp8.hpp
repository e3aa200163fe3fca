#pragma once
#include <ikebana/detail/message.hpp>
#include <ikebana/precision/autocast.hpp>
#include <ikebana/precision/fp8_linear.hpp>

namespace ikebana {

/// Linear layers in FP8, one scale a tensor: inputs and weights in E4M3, gradients in E5M2, results
/// in BF16, and weights' gradients in FP32 over FP32 weights. The rest of forward is
/// Precision<BF16>'s autocast, as are layers of which a size (rows, inputs, outputs) is no multiple
/// of 16. Activations kept by linear layers take a byte an element. As fast as the hardware's FP8
/// products; without them, as on most CPUs, many times slower than BF16. Gradients of gradients
/// through such a layer are an error. `scaling` is DynamicScaling or DelayedScaling. Source:
/// Micikevicius et al., arXiv:2209.05433; torch._scaled_mm.
template <>
struct Precision<FP8> {
  std::variant<DynamicScaling, DelayedScaling> scaling = DynamicScaling{};
};

template <>
struct Mechanism<Precision<FP8>> : detail::Autocast<at::kBFloat16> {
  Precision<FP8> values;
  explicit Mechanism(Precision<FP8> v) : values(v) { check(); }

  void attach(c10::Device where, const UnitTable& table) {
    Autocast::attach(where, table);
    bridge::LinearScope::install();
    try_products(where);
    layers_ = std::make_shared<detail::FP8Layers>(values.scaling, table, where);
  }
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    bridge::LinearScope linear(layers_);
    return Autocast::around_forward(std::forward<Next>(next));
  }
  /// Once more, since a recompute begins here, on a thread of autograd's.
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

 private:
  void check() const {
    auto* delayed = std::get_if<DelayedScaling>(&values.scaling);
    if (!delayed || (delayed->amax_history_len >= 1 && std::isfinite(delayed->margin))) return;
    throw BadValue(
        "Precision<FP8>: amax_history_len must be 1 or more, and margin a finite number.");
  }
  /// One product of each kind that training needs, since LibTorch tells in no other way.
  static void try_products(c10::Device where) {
    using detail::FP8Role;
    auto one = at::ones({}, at::TensorOptions(where).dtype(at::kFloat));
    auto ones = [&](FP8Role role) {
      return detail::Quantized{at::ones({16, 16}, one.options()).to(detail::fp8_type(role)), one,
                               one};
    };
    try {
      for (auto role : {FP8Role::Input, FP8Role::Gradient})
        for (auto type : {at::kBFloat16, at::kFloat}) {
          auto b = ones(FP8Role::Weight);
          detail::fp8_product(ones(role), {detail::by_columns(b.values), one, one}, type);
        }
    } catch (const c10::Error& error) {
      throw BadValue("Precision<FP8>: LibTorch has no FP8 products on " + where.str() + " (" +
                     detail::message_of(error) + "). Use Precision<BF16>.");
    }
  }

  std::shared_ptr<detail::FP8Layers> layers_;
};

}  // namespace ikebana
