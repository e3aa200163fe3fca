#pragma once
#include <ikebana/precision/autocast.hpp>

namespace ikebana {

/// Matmuls, convolutions and attention in BF16, weights and what needs range in FP32, by autocast.
/// Halves their activations; as fast as the hardware's BF16, and slower than FP32 where layers are
/// so small that casting them takes longer than computing them. No loss scale: BF16 has the range
/// of FP32. Source: torch.autocast.
template <>
struct Precision<BF16> {};

template <>
struct Mechanism<Precision<BF16>> : detail::Autocast<at::kBFloat16> {
  Precision<BF16> values;
  explicit Mechanism(Precision<BF16> v) : values(v) {}

  std::string describe() const { return "autocast to BFloat16 over Float32 weights"; }
};

}  // namespace ikebana
