#pragma once
// Counts what each operator of a call computes and moves.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <map>
#include <string>

namespace ikebana {

/// The cost of all calls of one operator: what it computes, and what it moves.
struct OperatorTotal {
  std::int64_t calls = 0;             ///< the number of its calls
  std::int64_t flops = 0;             ///< floating-point operations, if it computes products
  std::int64_t bytes = 0;             ///< what it reads and writes, each argument and result once;
                                      ///< 0 for views
  at::ScalarType dtype = at::kFloat;  ///< the dtype in which it computes most of its products
};

/// The operators of a computation.
struct OperatorTotals {
  std::map<std::string, OperatorTotal> by_name = {};  ///< by name, such as `aten::mm`

  /// Returns the sum over all operators, with the dtype of most products.
  OperatorTotal all() const;
};

/// Calls `f()` once and returns what each of its operators computes and moves, as
/// `torch.utils.flop_counter` counts operations. Operators are seen below autograd: `aten::linear`
/// is counted as the `aten::addmm` that it calls, and operators that a kernel calls itself belong
/// to the one that was called. A backward in `f` is counted, and every recompute of Checkpoint.
/// A tensor's bytes count once, however often a kernel reads them. Costs about two
/// microseconds per operator. Throws what `f` throws. A replay of `Capture` calls no operators, so
/// it counts nothing.
OperatorTotals count_operators(c10::function_ref<void()> f);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/operator_totals.ipp>
#endif
