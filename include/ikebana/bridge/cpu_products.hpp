#pragma once
// Chooses how a CPU computes products of 16-bit tensors: by its instructions, or in FP32 if it has
// none for them.
#include <ikebana/bridge/wide_products.hpp>
#include <string>

namespace ikebana {

/// The ways in which a CPU computes the matrix products, convolutions, attention and LSTMs of a
/// precision of 16 bits. Has no effect on other devices.
enum class CPUProducts {
  Fastest,  ///< `Native` if the processor has instructions for the dtype, else `FP32`
  Native,   ///< LibTorch's kernels of 16 bits: without the instructions 2 to 50 times FP32's time
  FP32,     ///< FP32 kernels on the 16-bit operands; results are rounded to 16 bits
};

namespace detail {

/// Warns of a model whose parameters have 16 bits, without a policy that computes its products.
void warn_of_slow_products(at::ScalarType type);

/// Decides from the processor's instructions for a dtype how products are computed. Made for a
/// policy, whose name its errors begin with. Without a dtype nothing is computed in FP32.
class HalfProducts {
 public:
  HalfProducts() = default;
  HalfProducts(const char* policy, c10::Device device, at::ScalarType type)
      : policy_(policy),
        type_(type),
        on_cpu_(device.is_cpu()),
        has_instructions_(!on_cpu_ || bridge::has_native_products(type)) {}

  /// Returns true if products are computed in FP32.
  bool in_fp32(CPUProducts wanted) const;
  /// Call it before computing. If products should be computed in FP32 and cannot, throws BadValue
  /// if FP32 was asked for, and otherwise warns once.
  void check(CPUProducts wanted);
  /// For several ranks: if one rank lacks the instructions, all compute as it does.
  bool has_instructions() const { return has_instructions_; }
  void use_instructions(bool on_all_ranks);

  std::string describe(CPUProducts wanted) const;

 private:
  bool wants_fp32(CPUProducts wanted) const;

  static constexpr const char* reason =
      "and another library of this process uses the dispatch key by which products are computed in "
      "FP32 instead.";
  const char* policy_ = "";
  at::ScalarType type_ = at::kBFloat16;
  bool on_cpu_ = false, has_instructions_ = true, has_warned_ = false;
};

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/cpu_products.ipp>
#endif
