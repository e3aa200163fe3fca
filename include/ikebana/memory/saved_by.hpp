#pragma once
// This header has moved to memory/in_place.hpp. Version 0.2 removes this one.
#include <ikebana/memory/in_place.hpp>
