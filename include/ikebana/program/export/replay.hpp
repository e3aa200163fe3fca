#pragma once
// Runs a program as Python would, to compare its results with the model's.
#include <ikebana/program/export/graph.hpp>
#include <ikebana/program/export/weights.hpp>

namespace ikebana::detail::exported {

/// Returns the outputs of a graph, with undefined tensors for outputs that it does not have.
/// `symbols` are the values of the sizes that may change. Needs the memory of one forward, because
/// intermediate tensors are released after their last use.
std::vector<at::Tensor> replay(const Graph& graph, const ModelWeights& weights,
                               const std::vector<at::Tensor>& inputs, const Values& symbols);

/// Throws BadModel unless the outputs of the graph are bitwise equal to the model's own. `sizes`
/// names the sizes of the inputs.
void check_replay(const std::vector<at::Tensor>& of_graph, const std::vector<at::Tensor>& of_model,
                  const std::string& sizes);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/replay.ipp>
#endif
