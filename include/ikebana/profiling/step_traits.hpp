#pragma once
// Reads what the operators of one step are given and return, as far as a slow training may be due
// to it.
#include <ikebana/bridge/operators.hpp>
#include <map>
#include <string>
#include <tuple>
#include <vector>

namespace ikebana::detail {

/// A product of an `m` x `k` and a `k` x `n` matrix, or `batch` of them.
struct ProductShape {
  std::int64_t batch = 1, m = 0, k = 0, n = 0;
  at::ScalarType dtype = at::kFloat;
  std::int64_t calls = 0;

  std::int64_t flops() const { return 2 * calls * batch * m * k * n; }
};

/// Traits of the operators of one step, below autograd.
struct StepTraits {
  std::int64_t operators = 0;   ///< calls of operators that compute: no views, no allocations
  std::int64_t host_reads = 0;  ///< numbers that the host reads from a tensor, such as by `item()`
  std::int64_t numbers = 0;     ///< elements of float, double and BF16 that operators return
  std::int64_t denormals = 0;   ///< how many of them are denormal
  /// Operations on denormals: one for each that an operator returns, and in a product of matrices
  /// one for each number that a denormal is multiplied with.
  double denormal_operations = 0;
  std::vector<ProductShape> products = {};  ///< the shapes of matrix products
};

/// Calls `step()` and returns its traits. Looks at every element of every result, so this takes
/// several times as long as the step. Denormals are counted on the CPU alone, where they are slow.
StepTraits traits_of(c10::function_ref<void()> step);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/step_traits.ipp>
#endif
