#pragma once
// Defines a flag of a thread that recomputes a checkpointed unit.
#include <ikebana/detail/flag_scope.hpp>

namespace ikebana::detail {

/// Returns the flag of this thread, which is true while it recomputes a checkpointed unit. The
/// graph that it then builds is discarded, so gradient edges and hooks, which belong to the first
/// forward, must not be attached a second time.
bool& recomputing();

struct RecomputingScope : FlagScope {
  RecomputingScope() : FlagScope(recomputing()) {}
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/recomputing.ipp>
#endif
