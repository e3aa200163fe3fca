#pragma once
// Writes a graph as the JSON of torch.export's schema.
#include <ikebana/program/export/dynamic.hpp>
#include <ikebana/program/export/graph.hpp>
#include <ikebana/program/export/nested.hpp>
#include <ikebana/program/export/weights.hpp>

namespace ikebana::detail::exported {

/// The inputs of a program: the values of a dictionary, which Python gives by position, or by name.
struct ProgramInputs {
  Nested named;
  bool by_name = false;

  /// The tree of the positional and the keyword arguments.
  Nested call() const;
};

/// All that the file of a program says besides the bytes of its tensors.
struct ProgramParts {
  const Graph& graph;
  const ModelWeights& weights;
  const std::vector<Symbol>& symbols;
  const ProgramInputs& inputs;
  const Nested& outputs;
};

/// models/NAME.json.
std::string program_json(const ProgramParts& parts);
/// The name of a constant: `lifted_tensor_0`.
std::string constant_name(std::size_t index);
/// A tensor's sizes and kind, as the files of weights and of constants list them.
std::string tensor_json(const at::Tensor& t, bool requires_grad);
/// An example of the arguments, in torch.save's format.
std::vector<char> sample_inputs(const ProgramInputs& inputs);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/program_json.ipp>
#endif
