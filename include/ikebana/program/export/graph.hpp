#pragma once
// Makes the graph of a program from recordings of one forward at several sizes.
#include <ikebana/program/export/recording.hpp>
#include <ikebana/program/export/sizes.hpp>

namespace ikebana::detail::exported {

/// A description of the sizes of a recording: "rows 5, length 7".
using SizesText = std::string;

/// An argument of a node: a value without tensors, tensors, or integers that may change.
using Argument = std::variant<c10::IValue, ValueId, ValueList, Size, std::vector<Size>>;

/// One operator of the program.
struct GraphNode {
  c10::OperatorHandle op;
  std::vector<Argument> inputs;  ///< one for each of the schema's arguments
  std::vector<Operand> outputs;
  std::string module;
};

/// A tensor of the program.
struct GraphValue {
  RecordedValue recorded;  ///< the value as it is in the first recording
  std::vector<Size> sizes, strides;
};

/// A program: what all recordings have in common, and how their integers follow from the sizes.
struct Graph {
  std::vector<GraphValue> values;
  std::vector<GraphNode> nodes;
  std::vector<RecordedConstant> constants;
  ValueList outputs;
  SizeTable sizes{{}};
};

/// A recorded forward: its operators, and the values that it returned.
struct RecordedForward {
  Recording recording;
  ValueList outputs;
  SizesText sizes;
};

/// Makes the graph. `symbols` has the values of each size that may change, in each recording.
/// Throws BadModel if the recordings differ in more than integers that follow from the symbols.
Graph graph_of(std::vector<RecordedForward> forwards, const std::vector<Values>& symbols);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/graph.ipp>
#endif
