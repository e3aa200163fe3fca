#pragma once
// This header has moved to modules/rotary.hpp. Version 0.2 removes this one.
#include <ikebana/modules/rotary.hpp>
