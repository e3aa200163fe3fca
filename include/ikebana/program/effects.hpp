#pragma once
// Finds the effects of an operator besides its results: random numbers, writes in place, views, and
// other results in evaluation than in training.
#include <ikebana/program/compiled_graph.hpp>

namespace ikebana::detail::pt2 {

/// Switches what an operator computes in training and in evaluation: dropout and norms. A norm
/// without running statistics computes the same in both. Notes which form the graph has.
void switch_mode(CompiledGraph& graph, Instruction& instruction);
/// Notes which results share the memory of an argument, as the schema says.
void follow_views(CompiledGraph& graph, const Instruction& instruction);
/// Adds a buffer's new value, which a graph without writes in place gives as an output. Throws
/// Refusal if no buffer has the name.
void add_write_back(CompiledGraph& graph, const std::string& buffer, Operand value, Modes modes);
/// Returns the effects of an operator. Throws Refusal for a write that a program must not make.
Effects effects_of(CompiledGraph& graph, Instruction& instruction, Modes modes);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/effects.ipp>
#endif
