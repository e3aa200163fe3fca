#pragma once
// Defines one recorded forward: its values, its operators, and the modules in which they ran.
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/torch.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ikebana::detail::exported {

/// The sizes and the kind of a tensor.
struct TensorFacts {
  std::vector<std::int64_t> sizes, strides;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  c10::Layout layout = c10::Layout::Strided;
  c10::Device device = at::kCPU;

  static TensorFacts of(const at::Tensor& t);
  /// Returns true if all but sizes and strides are equal, and the number of dimensions, too.
  bool is_like(const TensorFacts& other) const;
};

/// The index of a value of a recording.
using ValueId = std::size_t;

/// A tensor that a forward computes with.
struct RecordedValue {
  enum class Kind {
    Weight,    ///< a parameter or a buffer; `index` is its place in the list of all
    Input,     ///< an input; `index` is its place among the tensors of the example
    Constant,  ///< a tensor that no operator made; `index` is its place in Recording::constants
    Made,      ///< a result of the node `index`
  };
  Kind kind = Kind::Made;
  std::size_t index = 0;
  TensorFacts facts;
};

/// A list of tensors, some of which may be undefined.
using ValueList = std::vector<std::optional<ValueId>>;
/// An argument or a result of an operator: a tensor, a list of them, or a value without tensors.
using Operand = std::variant<c10::IValue, ValueId, ValueList>;

/// One operator of a forward.
struct RecordedNode {
  c10::OperatorHandle op;
  std::vector<Operand> inputs, outputs;
  std::string module;  ///< the path of the module that ran it
};

/// A tensor that no operator made, with the place of its first use.
struct RecordedConstant {
  at::Tensor values;
  std::string used_by;  ///< "`aten::add.Tensor` in unit `blocks.0`"
};

/// Everything that was recorded of one forward.
struct Recording {
  std::vector<RecordedValue> values;
  std::vector<RecordedNode> nodes;
  std::vector<RecordedConstant> constants;
  std::vector<std::string> problems;  ///< the reasons why the forward cannot be exported
};

/// Calls `f(id)` for each tensor of an operand.
template <class F>
void each_value(const Operand& operand, F&& f) {
  if (const auto* id = std::get_if<ValueId>(&operand)) f(*id);
  else if (const auto* list = std::get_if<ValueList>(&operand))
    for (const auto& one : *list)
      if (one) f(*one);
}

/// Leaves out the values that no recorded operator and no output uses, such as values inside of an
/// operator.
void forget_unused(Recording& recording, ValueList& outputs);

/// Names an operator and the module that runs it: "`aten::add.Tensor` in unit `blocks.0`".
std::string place_of(const std::string& op, const std::string& module);

}  // namespace ikebana::detail::exported

#ifndef IKEBANA_COMPILED
#include <ikebana/program/export/impl/recording.ipp>
#endif
