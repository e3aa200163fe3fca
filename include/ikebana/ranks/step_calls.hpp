#pragma once
// This header has moved to ranks/step_opening.hpp and ranks/step_sums.hpp.
// Version 0.2 removes this one.
#include <ikebana/ranks/step_opening.hpp>
#include <ikebana/ranks/step_sums.hpp>
