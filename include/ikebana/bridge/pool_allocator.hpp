#pragma once
// This header has moved to memory/pool_allocator.hpp. Version 0.2 removes this one.
#include <ikebana/memory/pool_allocator.hpp>
