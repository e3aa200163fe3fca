#pragma once
// A flag of a thread that recomputes a checkpointed unit.
#include <ikebana/detail/flag_scope.hpp>

namespace ikebana::detail {

/// True on a thread that recomputes a checkpointed unit. The graph that it builds is discarded, so
/// gradient edges and hooks, which belong to the first forward, must not be attached a second time.
bool& recomputing();

struct RecomputingScope : FlagScope {
  RecomputingScope() : FlagScope(recomputing()) {}
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/recomputing.ipp>
#endif
