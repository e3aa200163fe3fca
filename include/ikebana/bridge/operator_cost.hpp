#pragma once
// Counts what an operator computes and moves: the floating-point operations of products, and the
// bytes that it reads and writes.
#include <ikebana/bridge/operators.hpp>
#include <map>
#include <string>

namespace ikebana::bridge {

/// The cost of one call of an operator, below autograd.
struct OperatorCost {
  /// Floating-point operations of a matrix product, a convolution or an attention, two for each
  /// multiplication and addition; 0 for any other operator. The mask of an attention does not count
  /// less. Of a convolution with groups, only the products that are computed count.
  std::int64_t flops = 0;
  /// The bytes of its tensor arguments and results, each once; 0 for a view.
  std::int64_t bytes = 0;
  at::ScalarType dtype = at::kFloat;  ///< the dtype of the product's first argument
};

/// Computes the call, and returns its cost. Source of the formulas: torch.utils.flop_counter, which
/// counts the same for all operators that both know.
OperatorCost computed_cost(OperatorCall& call);

}  // namespace ikebana::bridge

namespace ikebana {

/// The floating-point operations of a computation.
struct FlopCount {
  std::int64_t total = 0;                                ///< the sum over all operators
  std::map<std::string, std::int64_t> by_operator = {};  ///< by name, such as `aten::mm`
};

/// Calls `f()` and returns the floating-point operations of its matrix products, convolutions and
/// attentions, as torch.utils.flop_counter counts them. A backward in `f` is counted, too, and
/// every recompute of Checkpoint. Costs about two microseconds per operator.
FlopCount count_flops(c10::function_ref<void()> f);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/operator_cost.ipp>
#endif
