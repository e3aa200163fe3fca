#pragma once
#include <ikebana/precision/autocast.hpp>

namespace ikebana {

/// Matmuls, convolutions and attention in BF16, weights and what needs range in FP32, by autocast.
/// Halves their activations; as fast as the hardware's BF16, slower than FP32 on small layers. No
/// loss scale: BF16 has the range of FP32. Source: torch.autocast.
template <>
struct Precision<BF16> {};

template <>
struct Mechanism<Precision<BF16>> : detail::Autocast<at::kBFloat16> {
  Precision<BF16> values;
  explicit Mechanism(Precision<BF16> v) : values(v) {}

  std::string describe() const { return "autocast to BFloat16 over Float32 weights"; }
};

}  // namespace ikebana
