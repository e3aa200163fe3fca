#pragma once
// This header has moved to state/ranks/rank_states.hpp. Version 0.2 removes this one.
#include <ikebana/state/ranks/rank_states.hpp>
