#pragma once
// This header has moved to model/rule.hpp. Version 0.2 removes this one.
#include <ikebana/model/rule.hpp>
