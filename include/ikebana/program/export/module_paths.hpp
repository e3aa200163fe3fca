#pragma once
// Says to which module each node of a program belongs.
#include <ikebana/program/export/graph.hpp>
#include <ikebana/program/export/weights.hpp>

namespace ikebana::detail::exported {

/// Returns true if `path` is the module `outer`, or a module inside of it.
inline bool is_within(const std::string& path, const std::string& outer) {
  return outer.empty() || path == outer || path.starts_with(outer + ".");
}

/// Replaces the unit in which a node ran by the module inside of it that owns the weights which the
/// node reads: `blocks.0.up` within unit `blocks.0`. A node without weights that is between two
/// nodes with weights belongs to the innermost module that contains both of their modules.
void name_modules(Graph& graph, const ModelWeights& weights);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/module_paths.ipp>
#endif
