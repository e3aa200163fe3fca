#pragma once
// This header has moved to bridge/memory_counter.hpp. Version 0.2 removes this one.
#include <ikebana/bridge/memory_counter.hpp>
