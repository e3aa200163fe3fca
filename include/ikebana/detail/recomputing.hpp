#pragma once
// Whether this thread is recomputing a checkpointed unit.
#include <ikebana/detail/flag_scope.hpp>

namespace ikebana::detail {

/// True on a thread that recomputes a checkpointed unit. The graph that it builds is discarded, so
/// what belongs to the first forward (gradient edges, hooks) must not be attached a second time.
bool& recomputing();

struct RecomputingScope : FlagScope {
  RecomputingScope() : FlagScope(recomputing()) {}
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/recomputing.ipp>
#endif
