#pragma once
// This header has moved to state/archive.hpp. Version 0.2 removes this one.
#include <ikebana/state/archive.hpp>
