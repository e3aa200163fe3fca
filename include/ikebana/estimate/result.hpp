#pragma once
// This header has moved to advice/result.hpp. Version 0.2 removes this one.
#include <ikebana/advice/result.hpp>
