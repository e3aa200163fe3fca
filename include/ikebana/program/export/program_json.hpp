#pragma once
// Writes a graph as the JSON of torch.export's schema.
#include <ikebana/program/export/dynamic.hpp>
#include <ikebana/program/export/graph.hpp>
#include <ikebana/program/export/nested.hpp>
#include <ikebana/program/export/weights.hpp>
#include <ikebana/program/payload_writer.hpp>

namespace ikebana::detail::exported {

using pt2::dtype_number;

/// The inputs of a program: the values of a dictionary, which Python gives by position or by name.
struct ProgramInputs {
  Nested named;
  bool by_name = false;

  /// Returns the tree of the positional and the keyword arguments.
  Nested call() const;
};

/// All that the file of a program contains besides the bytes of its tensors.
struct ProgramParts {
  const Graph& graph;
  const ModelWeights& weights;
  const std::vector<Symbol>& symbols;
  const ProgramInputs& inputs;
  const Nested& outputs;
};

/// Returns the text of models/NAME.json. Throws BadModel for an argument that the schema cannot
/// describe.
std::string program_json(const ProgramParts& parts);
/// Returns the name of a constant: `lifted_tensor_0`.
std::string constant_name(std::size_t index);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/program_json.ipp>
#endif
