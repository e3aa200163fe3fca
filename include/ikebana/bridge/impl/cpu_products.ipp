#pragma once
#include <ikebana/bridge/cpu_products.hpp>
#include <ikebana/detail/form.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE void warn_of_slow_products(at::ScalarType type) {
  TORCH_WARN(
      "ikebana: the model's parameters are ", type,
      ", and this processor has no instructions for it: LibTorch takes 10 to 50 times as long "
      "for their products as in FP32. Write Precision<BF16True>, which computes them in FP32, "
      "or model->to(at::kFloat).");
}

IKEBANA_INLINE bool HalfProducts::in_fp32(CPUProducts wanted) const {
  return wants_fp32(wanted) && bridge::wide_products_available();
}

IKEBANA_INLINE void HalfProducts::check(CPUProducts wanted) {
  if (!wants_fp32(wanted) || bridge::wide_products_available()) return;
  if (wanted == CPUProducts::FP32)
    throw BadValue(std::string(policy_) + ": cpu_products is FP32, " + reason +
                   " Run without that library, or leave cpu_products out.");
  if (!std::exchange(has_warned_, true))
    TORCH_WARN("ikebana: ", policy_, ": this processor has no instructions for ", type_, ", ",
               reason,
               " A step takes about 17 times as long as in FP32: run without that library, "
               "or use Precision<FP32>.");
}

IKEBANA_INLINE void HalfProducts::use_instructions(bool on_all_ranks) {
  if (!on_all_ranks) has_instructions_ = !on_cpu_;
}

IKEBANA_INLINE std::string HalfProducts::describe(CPUProducts wanted) const {
  if (!on_cpu_) return "";
  if (!in_fp32(wanted)) return ", products by LibTorch's kernels for it";
  return wanted == CPUProducts::FP32 ? ", products in Float32, rounded"
                                     : ", products in Float32, rounded: this processor has no "
                                       "instructions for it";
}

IKEBANA_INLINE bool HalfProducts::wants_fp32(CPUProducts wanted) const {
  return on_cpu_ &&
         (wanted == CPUProducts::FP32 || (wanted == CPUProducts::Fastest && !has_instructions_));
}

}  // namespace ikebana::detail
