#pragma once
// Finds the names of a program's inputs and outputs, from pytree's description of how they are
// nested.
#include <ikebana/program/graph.hpp>
#include <string>
#include <vector>

namespace ikebana::detail::pt2 {

/// Returns the names of what forward is given, in the order of the graph: `x`, `features.left`,
/// `pair[0]`. The names are empty if the file does not describe them.
std::vector<std::string> input_names(const ProgramModel& model, std::size_t count);
/// Returns the names of what forward returns. An output that is not nested is `output`.
std::vector<std::string> output_names(const ProgramModel& model, std::size_t count);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/trees.ipp>
#endif
