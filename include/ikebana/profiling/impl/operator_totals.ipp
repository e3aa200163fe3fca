#pragma once
#include <ikebana/bridge/operator_cost.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/profiling/operator_totals.hpp>

namespace ikebana::detail {

/// Operations by the dtype in which they are made.
using FlopsByDType = std::map<at::ScalarType, std::int64_t>;

/// Returns the dtype of most operations, and float if there are no operations.
inline at::ScalarType dtype_of_most(const FlopsByDType& by_dtype) {
  at::ScalarType found = at::kFloat;
  std::int64_t most = 0;
  for (const auto& [dtype, flops] : by_dtype)
    if (flops > most) most = flops, found = dtype;
  return found;
}

/// Adds up the cost of every operator, by its name.
struct CountOperators : bridge::OperatorMode {
  OperatorTotals found;
  std::map<std::string, FlopsByDType> dtypes;

  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;
};

IKEBANA_INLINE void CountOperators::call(bridge::OperatorCall& call) {
  const std::string name = call.name().name;
  const bridge::OperatorCost cost = bridge::computed_cost(call);
  OperatorTotal& total = found.by_name[name];
  ++total.calls, total.flops += cost.flops, total.bytes += cost.bytes;
  if (cost.flops > 0) dtypes[name][cost.dtype] += cost.flops;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE OperatorTotal OperatorTotals::all() const {
  OperatorTotal sum;
  detail::FlopsByDType by_dtype;
  for (const auto& [name, one] : by_name) {
    sum.calls += one.calls, sum.flops += one.flops, sum.bytes += one.bytes;
    by_dtype[one.dtype] += one.flops;
  }
  sum.dtype = detail::dtype_of_most(by_dtype);
  return sum;
}

IKEBANA_INLINE OperatorTotals count_operators(c10::function_ref<void()> f) {
  detail::CountOperators counting;
  {
    const bridge::OperatorScope<> scope(counting);
    f();
  }
  for (auto& [name, total] : counting.found.by_name)
    total.dtype = detail::dtype_of_most(counting.dtypes[name]);
  return std::move(counting.found);
}

}  // namespace ikebana
