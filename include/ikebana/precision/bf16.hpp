#pragma once
// Defines the policy Precision<BF16> and its mechanism.
#include <ikebana/precision/autocast.hpp>

namespace ikebana {

/// Autocast: matrix products, convolutions and attention in BF16; weights and operators that need
/// the precision stay in FP32. Cost: one cast of each weight per microbatch, which takes longer
/// than it saves for very small layers. Activations of BF16 operators take half the memory. A CPU
/// without instructions for BF16 computes products in FP32 and rounds them, which takes a tenth
/// more time than FP32 (CPUProducts). There is no loss scale, since BF16 has the range of FP32.
/// Source: torch.autocast.
template <>
struct Precision<BF16> {
  CPUProducts cpu_products = CPUProducts::Fastest;  ///< how a CPU multiplies
};

template <>
struct Mechanism<Precision<BF16>> : detail::Autocast<at::kBFloat16> {
  using carries_out = Precision<BF16>;
  Precision<BF16> values;
  explicit Mechanism(Precision<BF16> v) : values(v) {}

  void attach(c10::Device where, const UnitTable&);
  std::string describe() const;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/precision/impl/bf16.ipp>
#endif
