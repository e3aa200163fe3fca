#pragma once
// This header has moved to checkpoint/frame/operator_rule.hpp. Version 0.2 removes this one.
#include <ikebana/checkpoint/frame/operator_rule.hpp>
