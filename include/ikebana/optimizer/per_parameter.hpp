#pragma once
// This header has moved to optimizer/engine/per_parameter.hpp. Version 0.2 removes this one.
#include <ikebana/optimizer/engine/per_parameter.hpp>
