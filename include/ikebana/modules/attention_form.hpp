#pragma once
// This header has moved to modules/attention.hpp. Version 0.2 removes this one.
#include <ikebana/modules/attention.hpp>
