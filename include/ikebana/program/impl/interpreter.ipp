#pragma once
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/interpreter.hpp>

namespace ikebana::detail::pt2 {

IKEBANA_INLINE void Interpreter::run(Values inputs) {
  values_.resize(piece_.slot_count);
  for (std::size_t i = 0; i < piece_.inputs.size(); ++i)
    values_[piece_.inputs[i]] = std::move(inputs[i]);
  inputs.clear();
  try {
    run_scope(0);
  } catch (c10::Error& error) {
    if (at_ < piece_.instructions.size() &&
        piece_.instructions[at_].kind != Instruction::Kind::Unit)
      error.add_context("in the program's " + piece_.instructions[at_].name);
    throw;
  }
}

/// Runs instructions as long as they lie in a scope or inside of it.
IKEBANA_INLINE void Interpreter::run_scope(std::size_t scope) {
  while (at_ < piece_.instructions.size()) {
    const std::size_t next = piece_.instructions[at_].scope;
    if (next == scope) {
      call(piece_.instructions[at_]);
      ++at_;
      continue;
    }
    std::size_t inner = next;  // becomes the scope directly inside this one, if it exists
    while (inner != 0 && scopes_[inner].parent != scope) inner = scopes_[inner].parent;
    if (inner == 0) return;
    const Scope& region = scopes_[inner];
    if (region.kind == Scope::Kind::Grad) {
      const c10::AutoGradMode grad(region.enabled);
      run_scope(inner);
    } else {
      run_autocast(inner);
    }
  }
}

/// Runs a scope under autocast as the graph sets it. A cache of cast weights that is off stays off.
/// If it were on, a checkpoint would not recompute the same operators.
IKEBANA_INLINE void Interpreter::run_autocast(std::size_t scope) {
  const Scope& region = scopes_[scope];
  const bool is_known = region.device == at::kCPU || region.device == at::kCUDA;
  const c10::DeviceType device = is_known ? region.device : device_.type();
  const at::ScalarType dtype = region.dtype.value_or(at::autocast::get_autocast_dtype(device));
  std::optional<bridge::NoWeightCacheScope> no_cache;
  if (!region.cache) no_cache.emplace();
  const bridge::AutocastScope autocast(device, region.enabled ? dtype : at::ScalarType::Undefined);
  run_scope(scope);
}

IKEBANA_INLINE void Interpreter::call(const Instruction& instruction) {
  switch (instruction.kind) {
    case Instruction::Kind::Operator:
      return call_operator(instruction);
    case Instruction::Kind::Number:
      return compute_number(instruction);
    case Instruction::Kind::Size:
      return read_size(instruction);
    case Instruction::Kind::Unit:
      return call_unit(instruction);
    case Instruction::Kind::Assert: {
      const c10::IValue holds = taken(instruction.operands[0]);
      if (!(holds.isBool() ? holds.toBool() : holds.toInt() != 0))
        throw BadBatch("Program: an assertion of the exported model failed, in " +
                       instruction.name + ". Use inputs that it holds for.");
    }
  }
}

IKEBANA_INLINE c10::IValue Interpreter::element(const ListElement& element) {
  if (element.slot == no_slot) return element.constant;
  if (element.is_attribute) return *attributes_[element.slot];
  return element.is_last ? std::move(values_[element.slot]) : values_[element.slot];
}

IKEBANA_INLINE c10::IValue Interpreter::list(const Operand& operand) {
  auto filled = [&](auto list, auto&& convert) -> c10::IValue {
    list.reserve(operand.elements.size());
    for (const ListElement& one : operand.elements) list.push_back(convert(element(one)));
    return list;
  };
  switch (operand.list_of) {
    case Operand::ListOf::Tensors:
      return filled(c10::List<at::Tensor>(), [](c10::IValue v) { return std::move(v).toTensor(); });
    case Operand::ListOf::OptionalTensors:
      return filled(c10::List<std::optional<at::Tensor>>(), [](c10::IValue v) {
        return v.isNone() ? std::optional<at::Tensor>() : std::move(v).toTensor();
      });
    case Operand::ListOf::Integers:
      return filled(c10::List<std::int64_t>(), [](const c10::IValue& v) { return v.toInt(); });
    case Operand::ListOf::Doubles:
      return filled(c10::List<double>(), [](const c10::IValue& v) {
        return v.isInt() ? static_cast<double>(v.toInt()) : v.toDouble();
      });
    default:
      return filled(c10::List<bool>(), [](const c10::IValue& v) { return v.toBool(); });
  }
}

/// Returns the value of an operand. The interpreter does not keep it after its last use.
IKEBANA_INLINE c10::IValue Interpreter::taken(const Operand& operand,
                                              const Instruction* instruction) {
  switch (operand.kind) {
    case Operand::Kind::Constant:
      return operand.constant;
    case Operand::Kind::Mode:
      return instruction->owner->is_training() ? operand.constant : operand.evaluated;
    case Operand::Kind::Device:
      return device_;
    case Operand::Kind::Attribute:
      return operand.is_copied ? (*attributes_[operand.slot]).clone() : *attributes_[operand.slot];
    case Operand::Kind::List:
      return list(operand);
    case Operand::Kind::Value:
      break;
  }
  c10::IValue value = operand.is_last ? std::move(values_[operand.slot]) : values_[operand.slot];
  if (operand.conversion == Operand::Conversion::ToTensor)
    return at::native::wrapped_scalar_tensor(value.toScalar());
  if (operand.conversion == Operand::Conversion::ToDouble && !value.isDouble())
    return static_cast<double>(value.toInt());
  return value;
}

IKEBANA_INLINE void Interpreter::call_operator(const Instruction& instruction) {
  const bool is_off =
      (instruction.only_training && !instruction.owner->is_training()) ||
      (instruction.skips_autocast && at::autocast::is_autocast_enabled(device_.type()));
  stack_.clear();
  if (is_off) {
    stack_.push_back(taken(instruction.operands[0]));
    stack_.resize(instruction.results.size());
  } else {
    for (const Operand& operand : instruction.operands)
      stack_.push_back(taken(operand, &instruction));
    instruction.op->callBoxed(&stack_);
  }
  keep(instruction);
}

IKEBANA_INLINE void Interpreter::keep(const Instruction& instruction) {
  for (std::size_t i = 0; i < instruction.results.size(); ++i)
    keep(instruction.results[i], std::move(stack_[i]), instruction);
  stack_.clear();
}

IKEBANA_INLINE void Interpreter::keep(const Result& result, c10::IValue value,
                                      const Instruction& instruction) {
  if (!result.is_list) {
    if (result.slot != no_slot) values_[result.slot] = std::move(value);
    return;
  }
  const auto tensors = std::move(value).toTensorVector();
  if (tensors.size() != result.elements.size())
    throw BadBatch("Program: " + instruction.name + " made " + std::to_string(tensors.size()) +
                   " tensors, and the graph uses " + std::to_string(result.elements.size()) +
                   ". Use inputs of the sizes that the model was exported with.");
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (result.elements[i] != no_slot) values_[result.elements[i]] = tensors[i];
}

IKEBANA_INLINE void Interpreter::compute_number(const Instruction& instruction) {
  c10::SmallVector<c10::IValue, 3> numbers;
  for (const Operand& operand : instruction.operands) numbers.push_back(taken(operand));
  keep(instruction.results[0], instruction.number(numbers), instruction);
}

IKEBANA_INLINE void Interpreter::read_size(const Instruction& instruction) {
  const at::Tensor tensor = taken(instruction.operands[0]).toTensor();
  const std::int64_t dim =
      instruction.operands.size() > 1 ? instruction.operands[1].constant.toInt() : 0;
  std::int64_t number = 0;
  switch (instruction.size_of) {
    case Instruction::SizeOf::Size:
      number = tensor.size(dim);
      break;
    case Instruction::SizeOf::Stride:
      number = tensor.stride(dim);
      break;
    case Instruction::SizeOf::Count:
      number = tensor.numel();
      break;
    case Instruction::SizeOf::Offset:
      number = tensor.storage_offset();
      break;
  }
  keep(instruction.results[0], number, instruction);
}

IKEBANA_INLINE void Interpreter::call_unit(const Instruction& instruction) {
  Values inputs;
  inputs.reserve(instruction.operands.size());
  for (const Operand& operand : instruction.operands) inputs.push_back(taken(operand));
  Values outputs = run_unit_(instruction.unit, std::move(inputs));
  for (std::size_t i = 0; i < instruction.results.size(); ++i)
    keep(instruction.results[i], std::move(outputs[i]), instruction);
}

IKEBANA_INLINE Values Interpreter::outputs() {
  Values outputs;
  outputs.reserve(piece_.outputs.size());
  for (Slot slot : piece_.outputs) outputs.push_back(std::move(values_[slot]));
  return outputs;
}

IKEBANA_INLINE c10::IValue Interpreter::value(const Operand& operand) {
  return operand.kind == Operand::Kind::Value ? values_[operand.slot] : taken(operand);
}

}  // namespace ikebana::detail::pt2
