#pragma once
// Finds the BF16 numbers nearest to an FP32 number.
#include "guarantees/guarantees.hpp"

namespace guarantees::bf16 {

/// Returns the next BF16 number towards zero.
inline at::Tensor cut(const at::Tensor& exact) {
  return exact.view(at::kInt).bitwise_and(-65536).view(at::kFloat);
}
/// Returns the distance between the two BF16 numbers around each element.
inline at::Tensor unit(const at::Tensor& exact) {
  return (exact.view(at::kInt).bitwise_and(-65536) + 65536).view(at::kFloat) - cut(exact);
}

}  // namespace guarantees::bf16
