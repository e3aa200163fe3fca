#pragma once
// This header has moved to state/weights.hpp. Version 0.2 removes this one.
#include <ikebana/state/weights.hpp>
