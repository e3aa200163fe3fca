#pragma once
// Defines Python's functions of numbers, by which a graph computes sizes.
#include <ikebana/program/instruction.hpp>
#include <string_view>

namespace ikebana::detail::pt2 {

/// A function and the number of its arguments.
struct KnownNumberFunction {
  NumberFunction function;
  std::size_t arguments;
};

/// Returns the function that a node's target names, such as `_operator.floordiv`, or no value if it
/// is unknown.
std::optional<KnownNumberFunction> number_function(std::string_view target);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/number_functions.ipp>
#endif
