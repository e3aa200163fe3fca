#pragma once
// This header has moved to optimizer/group.hpp. Version 0.2 removes this one.
#include <ikebana/optimizer/group.hpp>
