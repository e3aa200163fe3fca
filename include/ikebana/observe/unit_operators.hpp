#pragma once
// Counts what the operators of each unit compute and move, and what its forward leaves for
// backward.
#include <ikebana/bridge/operator_cost.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/made_memory.hpp>
#include <ikebana/observe/unit_clock.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

namespace ikebana::detail {

/// The operators of one step, by unit and direction. While it is open it sees each operator, and
/// remembers, weakly, the memory of the results, so that after the forward of a unit it knows which
/// of that is still held.
class UnitOperators : bridge::OperatorMode {
 public:
  /// The cost of the operators of one part.
  struct Cost {
    std::int64_t flops = 0, bytes = 0, operators = 0;
  };

  UnitOperators(const UnitClock& clock, std::size_t units)
      : clock_(clock), costs_(clock.nothing() + 1), activations_(units), scope_(*this) {}

  /// The forward of a unit has ended: if it is the unit's first, counts the bytes that it and its
  /// results hold.
  void end_forward(std::size_t unit) noexcept;
  const Cost& cost(UnitClock::Part part) const { return costs_[part]; }
  std::int64_t activations(std::size_t unit) const { return activations_[unit].value_or(0); }

 private:
  IKEBANA_INLINE void call(bridge::OperatorCall& call) override;

  const UnitClock& clock_;
  std::vector<Cost> costs_;
  std::vector<std::optional<std::int64_t>> activations_;
  /// The memory that each unit's operators have made, and that no ended unit holds.
  std::unordered_map<std::size_t, MadeMemory> made_;
  bridge::OperatorScope<> scope_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/unit_operators.ipp>
#endif
