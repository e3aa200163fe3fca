#pragma once
// Looks up the operators of a graph and resolves its names.
#include <ikebana/program/compiled_graph.hpp>

namespace ikebana::detail::pt2 {

/// Compiles a model. Adds to `refusals` what prevents it from being run.
CompiledGraph compiled(const ProgramModel& model, c10::DeviceType exported_on, Modes modes,
                       std::vector<std::string>& refusals);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/graph_compiler.ipp>
#endif
