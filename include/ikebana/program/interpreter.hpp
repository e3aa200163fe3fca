#pragma once
// Runs a piece of a program. It calls the operators one after the other, and releases each value
// after its last use.
#include <ikebana/program/plan.hpp>

namespace ikebana::detail::pt2 {

/// The tensor of an attribute. A parameter is read from its module at each use, because a policy
/// may have replaced the module's tensor.
class AttributeTensor {
 public:
  explicit AttributeTensor(at::Tensor tensor) : tensor_(std::move(tensor)) {}
  AttributeTensor(const torch::OrderedDict<std::string, at::Tensor>& parameters, std::size_t index)
      : parameters_(&parameters), index_(index) {}

  const at::Tensor& operator*() const {
    return parameters_ != nullptr ? (*parameters_)[index_].value() : tensor_;
  }

 private:
  const torch::OrderedDict<std::string, at::Tensor>* parameters_ = nullptr;
  std::size_t index_ = 0;
  at::Tensor tensor_;
};
using AttributeTensors = std::vector<AttributeTensor>;

/// Values that cross the border of a unit: tensors, and numbers such as sizes, in one order.
using Values = std::vector<c10::IValue>;

/// Computes the unit with this index from its inputs.
using RunUnit = c10::function_ref<Values(std::size_t unit, Values inputs)>;

/// Runs one piece.
class Interpreter {
 public:
  Interpreter(const Piece& piece, const std::vector<Scope>& scopes,
              const AttributeTensors& attributes, c10::Device device, RunUnit run_unit)
      : piece_(piece),
        scopes_(scopes),
        attributes_(attributes),
        device_(device),
        run_unit_(run_unit) {}

  /// Computes everything from the inputs. Errors of LibTorch name the operator and its module.
  void run(Values inputs);
  /// Returns the outputs of the piece, after `run`.
  Values outputs();
  /// Returns the value of an operand of the piece, after `run`.
  c10::IValue value(const Operand& operand);

 private:
  void run_scope(std::size_t scope);
  void run_autocast(std::size_t scope);
  void call(const Instruction& instruction);
  void call_operator(const Instruction& instruction);
  void call_unit(const Instruction& instruction);
  void compute_number(const Instruction& instruction);
  void read_size(const Instruction& instruction);
  c10::IValue taken(const Operand& operand, const Instruction* instruction = nullptr);
  c10::IValue list(const Operand& operand);
  c10::IValue element(const ListElement& element);
  void keep(const Instruction& instruction);
  void keep(const Result& result, c10::IValue value, const Instruction& instruction);

  const Piece& piece_;
  const std::vector<Scope>& scopes_;
  const AttributeTensors& attributes_;
  c10::Device device_;
  RunUnit run_unit_;
  std::size_t at_ = 0;
  Values values_;
  torch::jit::Stack stack_;
};

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/interpreter.ipp>
#endif
