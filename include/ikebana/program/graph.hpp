#pragma once
// Defines a graph of torch.export as its file has it: nodes that name their operator, and arguments
// that name the values they use. Nothing in it is compared with the operators yet.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ikebana::detail {

struct ProgramGraph;

/// One element of an argument: a value by name, or a constant.
struct GraphElement {
  std::string name;      ///< the name of a value; empty for a constant
  c10::IValue constant;  ///< None, a number or a boolean
};

/// An argument of a node, or one of its results.
struct GraphArgument {
  /// A constant of any type; one value; a list of values and numbers; a graph of a higher-order
  /// operator; or an argument of a kind that this library does not read.
  enum class Form { Constant, Value, List, Graph, Unknown };
  std::string name;                    ///< the name of the parameter in the operator's schema
  std::string kind;                    ///< the kind as the file names it: `as_tensor`
  Form form = Form::Unknown;           ///< the form of its contents
  c10::IValue constant = {};           ///< the value, if it is a Constant
  std::vector<GraphElement> elements;  ///< the one element of a Value, or all elements of a List
  std::shared_ptr<ProgramGraph> graph = {};
};

/// A call of a module in which a node lies.
struct GraphModule {
  std::string path;  ///< `blocks.0`, or `blocks.0@1` for a second call of the same module
  std::string type;  ///< its class in Python
};

/// Returns the path of a module, without the number of its call.
inline std::string path_of_call(const std::string& call) { return call.substr(0, call.find('@')); }

/// Returns the path of the module that has a weight: `blocks.0` for `blocks.0.weight`.
inline std::string module_part(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == name.npos ? std::string() : name.substr(0, dot);
}

/// A call of an operator.
struct GraphNode {
  std::string target;                  ///< `torch.ops.aten.linear.default`
  std::vector<GraphArgument> inputs;   ///< the arguments by name, or by position for a higher-order
                                       ///< operator
  std::vector<GraphArgument> outputs;  ///< the values that it makes
  std::vector<GraphModule> modules;    ///< the modules around it, the outermost first, without the
                                       ///< whole model
};

/// A size: a number, or an expression of symbols as sympy writes it, such as
/// `Symbol('s0', positive=True, integer=True)`.
struct GraphSize {
  std::int64_t number = 0;  ///< the size, if `expression` is empty
  std::string expression;   ///< the size, if it is not a number
};

/// A tensor as the file describes it. Its reader has not checked the numbers.
struct GraphTensor {
  at::ScalarType dtype = at::kFloat;
  std::vector<GraphSize> sizes, strides;
  GraphSize offset;
  bool requires_grad = false;
  c10::Device device = at::kCPU;
  bool is_strided = true;
};

/// A graph: nodes in the order in which they run.
struct ProgramGraph {
  std::vector<GraphArgument> inputs, outputs;
  std::vector<GraphNode> nodes;
  std::map<std::string, GraphTensor> tensors;  ///< the tensors, by the name of the value
};

/// The source of an input of a graph.
struct GraphInput {
  enum class Kind { User, Constant, Parameter, Buffer, TensorConstant, Unknown };
  Kind kind = Kind::Unknown;
  std::string value;       ///< its name in the graph
  std::string name;        ///< the name of the parameter, buffer or constant, or the kind of the
                           ///< input if it is unknown
  bool persistent = true;  ///< if it is a buffer: whether Python's state has it
};

/// The destination of an output of a graph.
struct GraphOutput {
  enum class Kind { User, BufferMutation, Unknown };
  Kind kind = Kind::Unknown;
  GraphArgument argument;
  std::string name;  ///< the name of the buffer, or the kind of the output if it is unknown
};

/// The smallest and the largest value of a symbol.
struct SymbolRange {
  std::int64_t min = 0, max = std::numeric_limits<std::int64_t>::max();
};

/// One model of an archive: models/NAME.json.
struct ProgramModel {
  ProgramGraph graph;
  std::vector<GraphInput> inputs;
  std::vector<GraphOutput> outputs;
  std::map<std::string, SymbolRange> ranges;  ///< the ranges, by symbol
  std::string input_tree, output_tree;        ///< pytree's specifications; empty if they are not
                                              ///< given
  std::vector<std::string> input_names;       ///< the names of forward's parameters; empty if they
                                              ///< are not given
  std::string torch_version;                  ///< the version that wrote it
};

}  // namespace ikebana::detail
