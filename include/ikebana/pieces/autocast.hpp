#pragma once
// Autocast for a scope.
#include <ikebana/bridge/rng_autocast_state.hpp>

namespace ikebana::pieces {
using bridge::AutocastScope;
}  // namespace ikebana::pieces
