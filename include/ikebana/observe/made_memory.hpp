#pragma once
// Remembers which memory operators have made.
#include <ikebana/bridge/operators.hpp>
#include <set>
#include <vector>

namespace ikebana::detail {

/// The memory that some operators have made, remembered weakly, so that none lives longer.
class MadeMemory {
 public:
  /// Memory that was counted already.
  using Counted = std::set<const c10::StorageImpl*>;

  /// Remembers the memory of the call's results, without what is an argument's.
  void add(const bridge::OperatorCall& call);
  /// Returns the bytes of the memory that still exists, without what is in `counted`, and adds it
  /// there.
  std::int64_t held_bytes(Counted& counted) const;

 private:
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> made_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/made_memory.ipp>
#endif
