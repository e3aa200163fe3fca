#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/precision/fp8.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Precision<FP8>>::attach(c10::Device where, const UnitTable& table) {
  static constexpr CPUProducts fastest = CPUProducts::Fastest;
  Autocast::attach("Precision<FP8>", where, fastest);
  bridge::LinearScope::install();
  check_products(where);
  layers_ = detail::make_shared_apart<detail::FP8Layers>(values.scaling, table, where);
}

IKEBANA_INLINE std::string Mechanism<Precision<FP8>>::describe() const {
  auto* delayed = std::get_if<DelayedScaling>(&values.scaling);
  return "linear layers in Float8 (E4M3, gradients E5M2), " +
         (delayed ? "delayed scaling over " + std::to_string(delayed->amax_history_len) + " steps"
                  : std::string("dynamic scaling")) +
         ", the rest autocast to BFloat16";
}

IKEBANA_INLINE void Mechanism<Precision<FP8>>::check() const {
  auto* delayed = std::get_if<DelayedScaling>(&values.scaling);
  if (!delayed || (delayed->amax_history_len >= 1 && std::isfinite(delayed->margin))) return;
  throw BadValue("Precision<FP8>: amax_history_len is " + c10::str(delayed->amax_history_len) +
                 " and margin " + c10::str(delayed->margin) +
                 "; amax_history_len must be 1 or more, and margin finite.");
}

IKEBANA_INLINE void Mechanism<Precision<FP8>>::check_products(c10::Device where) {
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

}  // namespace ikebana
