#pragma once
// This header has moved to optimizer/libtorch/libtorch_state.hpp. Version 0.2 removes this one.
#include <ikebana/optimizer/libtorch/libtorch_state.hpp>
