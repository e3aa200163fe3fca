#pragma once
// This header has moved to state/ranks/state_reader.hpp. Version 0.2 removes this one.
#include <ikebana/state/ranks/state_reader.hpp>
