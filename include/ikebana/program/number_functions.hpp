#pragma once
// Python's functions of numbers, which a graph computes sizes with.
#include <ikebana/program/instruction.hpp>
#include <string_view>

namespace ikebana::detail::pt2 {

/// A function and the number of its arguments.
struct KnownNumberFunction {
  NumberFunction function;
  std::size_t arguments;
};

/// The function that a node's target names, such as `_operator.floordiv`; nothing if it is unknown.
std::optional<KnownNumberFunction> number_function(std::string_view target);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/number_functions.ipp>
#endif
