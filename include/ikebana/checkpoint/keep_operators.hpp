#pragma once
// What a frame of a selective checkpoint keeps: outputs of operators, which recompute then returns
// instead of computing them.
#include <ikebana/checkpoint/record.hpp>
#include <ikebana/checkpoint/replay.hpp>

namespace ikebana::detail {

/// Keeps the outputs of the operators that the rule chooses. A template for the same reason as
/// Frame.
class KeepOperators {
 public:
  using Rule = OperatorRule;
  using Scope = bridge::OperatorScope<>;

  KeepOperators(const Rule& rule, const Slots& saved) : record_(calls_, rule, saved) {}

  /// Open while a unit's forward runs.
  Scope record() { return Scope(record_); }
  /// Open a scope of it while a unit is recomputed.
  Replay replay(const std::string& unit, CompareDraws& draws) const;
  void forward_ended(std::size_t saved_tensors) { calls_.forward_ended(saved_tensors); }
  void clear() { calls_.clear(); }
  static constexpr bool goes_on() { return false; }
  template <class Inputs, class Rehearse>
  static void before_recompute(const Inputs&, const Rehearse&) {}
  static void after_recompute() {}

 private:
  KeptCalls calls_;
  Record record_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/impl/keep_operators.ipp>
#endif
