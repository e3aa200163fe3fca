#pragma once
// This header has moved to state/files/json.hpp. Version 0.2 removes this one.
#include <ikebana/state/files/json.hpp>
