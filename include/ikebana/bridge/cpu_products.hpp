#pragma once
// How a CPU computes products of 16-bit tensors: by its instructions, or in FP32 where it has none.
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/error.hpp>
#include <string>
#include <utility>

namespace ikebana {

/// How a CPU computes the matrix products, convolutions, attention and LSTMs of a precision of 16
/// bits. On other devices it has no effect.
enum class CPUProducts {
  Fastest,  ///< `Native` if the processor has instructions for the dtype, else `FP32`
  Native,   ///< LibTorch's kernels of 16 bits: without the instructions 2 to 50 times FP32's time
  FP32,     ///< FP32 kernels on the 16-bit operands; results are rounded to 16 bits
};

namespace detail {

/// A model that is itself of 16 bits, without a policy that computes its products.
inline void warn_of_slow_products(at::ScalarType type) {
  TORCH_WARN(
      "ikebana: the model's parameters are ", type,
      ", and this processor has no instructions for it: LibTorch takes 10 to 50 times as long "
      "for their products as in FP32. Write Precision<BF16True>, which computes them in FP32, "
      "or model->to(at::kFloat).");
}

/// What the processor can do for one dtype, and so what a wish comes to. Made for a policy, whose
/// name is that of its errors. Without a dtype nothing is computed in FP32.
class HalfProducts {
 public:
  HalfProducts() = default;
  HalfProducts(const char* policy, c10::Device device, at::ScalarType type)
      : policy_(policy),
        type_(type),
        on_cpu_(device.is_cpu()),
        has_instructions_(!on_cpu_ || bridge::has_native_products(type)) {}

  /// True if products are computed in FP32.
  bool in_fp32(CPUProducts wanted) const {
    return wants_fp32(wanted) && bridge::wide_products_available();
  }
  /// Where they should be and cannot: throws BadValue if that was asked for, else warns once.
  void check(CPUProducts wanted) {
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
  /// For the other ranks: a rank without the instructions makes all compute as it does.
  bool has_instructions() const { return has_instructions_; }
  void use_instructions(bool on_all_ranks) {
    if (!on_all_ranks) has_instructions_ = !on_cpu_;
  }

  std::string describe(CPUProducts wanted) const {
    if (!on_cpu_) return "";
    if (!in_fp32(wanted)) return ", products by LibTorch's kernels for it";
    return wanted == CPUProducts::FP32 ? ", products in Float32, rounded"
                                       : ", products in Float32, rounded: this processor has no "
                                         "instructions for it";
  }

 private:
  bool wants_fp32(CPUProducts wanted) const {
    return on_cpu_ &&
           (wanted == CPUProducts::FP32 || (wanted == CPUProducts::Fastest && !has_instructions_));
  }

  static constexpr const char* reason =
      "and another library of this process uses the dispatch key by which products are computed in "
      "FP32 instead.";
  const char* policy_ = "";
  at::ScalarType type_ = at::kBFloat16;
  bool on_cpu_ = false, has_instructions_ = true, has_warned_ = false;
};

}  // namespace detail
}  // namespace ikebana
