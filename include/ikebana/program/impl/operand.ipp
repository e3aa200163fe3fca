#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/program/operand.hpp>

namespace ikebana::detail::pt2 {

IKEBANA_INLINE const Binding& bound(const std::string& name, const Bindings& bindings) {
  const auto found = bindings.find(name);
  if (found == bindings.end())
    throw Refusal{"uses the value `" + escaped(name) + "`, which nothing has made"};
  return found->second;
}

IKEBANA_INLINE Operand constant_operand(c10::IValue value) {
  Operand operand;
  operand.constant = std::move(value);
  return operand;
}

/// Returns the operand for the meaning of a name, without a conversion.
IKEBANA_INLINE Operand operand_of_binding(const Binding& binding) {
  Operand operand;
  operand.slot = binding.slot;
  if (binding.kind == Binding::Kind::Constant) return constant_operand(binding.constant);
  operand.kind =
      binding.kind == Binding::Kind::Attribute ? Operand::Kind::Attribute : Operand::Kind::Value;
  return operand;
}

IKEBANA_INLINE bool is_tensor(const Binding& binding) {
  return binding.kind == Binding::Kind::Tensor || binding.kind == Binding::Kind::Attribute;
}

[[noreturn]] IKEBANA_INLINE void refuse_type(const c10::Argument& parameter,
                                             const std::string& given) {
  throw Refusal{"gives " + given + " as `" + parameter.name() + "`, which is a " +
                parameter.type()->str()};
}

IKEBANA_INLINE c10::TypePtr without_none(const c10::TypePtr& type) {
  const auto optional = type->cast<c10::OptionalType>();
  return optional ? optional->getElementType() : type;
}
IKEBANA_INLINE bool allows_none(const c10::TypePtr& type) {
  return type->kind() == c10::TypeKind::OptionalType || type->kind() == c10::TypeKind::NoneType;
}

/// Returns a number as a tensor, for an operator that takes a tensor. It takes part in type
/// promotion as a number does, as in Python.
IKEBANA_INLINE at::Tensor tensor_of_number(const c10::IValue& number) {
  return at::native::wrapped_scalar_tensor(number.toScalar());
}

/// Returns a list of constants in the schema's type, or None if it does not fit.
IKEBANA_INLINE c10::IValue constant_list(const c10::IValue& value, const c10::TypePtr& element,
                                         std::optional<int> length) {
  using c10::TypeKind;
  const TypeKind kind = without_none(element)->kind();
  const bool is_empty = value.isList() && value.toListRef().empty();
  if (kind == TypeKind::IntType) {
    if (value.isIntList()) return value;
    if (value.isInt() && length)  // because PyTorch takes one size for all dimensions
      return std::vector<std::int64_t>(static_cast<std::size_t>(*length), value.toInt());
    if (is_empty) return std::vector<std::int64_t>();
  } else if (kind == TypeKind::FloatType) {
    if (value.isDoubleList()) return value;
    if (value.isIntList()) {
      const auto whole = value.toIntVector();
      return std::vector<double>(whole.begin(), whole.end());
    }
  } else if (kind == TypeKind::BoolType) {
    if (value.isBoolList()) return value;
    if (is_empty) return c10::List<bool>();
  } else if (kind == TypeKind::TensorType && is_empty) {
    if (allows_none(element)) return c10::List<std::optional<at::Tensor>>();
    return c10::List<at::Tensor>();
  } else if (kind == TypeKind::NumberType && (value.isIntList() || value.isDoubleList())) {
    c10::List<at::Scalar> numbers;
    for (const c10::IValue& one : value.toListRef()) numbers.push_back(one.toScalar());
    return numbers;
  } else if (kind == TypeKind::StringType && value.isList()) {
    for (const c10::IValue& one : value.toListRef())
      if (!one.isString()) return {};
    return value;
  }
  return {};
}

/// Returns a constant in the schema's type, or None if it does not fit.
IKEBANA_INLINE c10::IValue converted(const c10::IValue& value, const c10::Argument& parameter) {
  using c10::TypeKind;
  const c10::TypePtr type = without_none(parameter.type());
  const bool is_number = value.isInt() || value.isDouble() || value.isBool();
  switch (type->kind()) {
    case TypeKind::TensorType:
      return is_number ? c10::IValue(tensor_of_number(value)) : c10::IValue();
    case TypeKind::NumberType:
      return is_number || value.isComplexDouble() ? value : c10::IValue();
    case TypeKind::IntType:
      if (value.isBool()) return static_cast<std::int64_t>(value.toBool());
      return value.isInt() ? value : c10::IValue();
    case TypeKind::FloatType:
      if (value.isInt()) return static_cast<double>(value.toInt());
      return value.isDouble() ? value : c10::IValue();
    case TypeKind::BoolType:
      return value.isBool() ? value : c10::IValue();
    case TypeKind::StringType:
      return value.isString() ? value : c10::IValue();
    case TypeKind::DeviceObjType:
      return value.isDevice() ? value : c10::IValue();
    case TypeKind::ListType:
      return constant_list(value, type->castRaw<c10::ListType>()->getElementType(), parameter.N());
    default:
      return {};
  }
}

IKEBANA_INLINE Operand operand_of_constant(const c10::Argument& parameter, const c10::IValue& value,
                                           c10::DeviceType exported_on) {
  if (value.isNone()) {
    if (!allows_none(parameter.type())) refuse_type(parameter, "None");
    return constant_operand({});
  }
  Operand operand = constant_operand(converted(value, parameter));
  if (operand.constant.isNone()) refuse_type(parameter, "a " + value.tagKind());
  if (value.isDevice() && value.toDevice().type() == exported_on)
    operand.kind = Operand::Kind::Device;
  return operand;
}

/// Returns the operand of one value.
IKEBANA_INLINE Operand operand_of_value(const c10::Argument& parameter, const Binding& binding,
                                        c10::DeviceType exported_on) {
  using c10::TypeKind;
  if (binding.kind == Binding::Kind::Constant)
    return operand_of_constant(parameter, binding.constant, exported_on);
  Operand operand = operand_of_binding(binding);
  const TypeKind kind = without_none(parameter.type())->kind();
  const bool is_number_type =
      kind == TypeKind::IntType || kind == TypeKind::NumberType || kind == TypeKind::BoolType;
  if (is_tensor(binding)) {
    if (kind != TypeKind::TensorType) refuse_type(parameter, "a tensor");
  } else if (kind == TypeKind::TensorType) {
    operand.conversion = Operand::Conversion::ToTensor;
  } else if (kind == TypeKind::FloatType) {
    operand.conversion = Operand::Conversion::ToDouble;
  } else if (!is_number_type) {
    refuse_type(parameter, "a number");
  }
  return operand;
}

IKEBANA_INLINE Operand::ListOf list_kind(const c10::Argument& parameter) {
  using c10::TypeKind;
  const auto list = without_none(parameter.type())->cast<c10::ListType>();
  if (!list) refuse_type(parameter, "a list");
  const c10::TypePtr element = list->getElementType();
  switch (without_none(element)->kind()) {
    case TypeKind::TensorType:
      return allows_none(element) ? Operand::ListOf::OptionalTensors : Operand::ListOf::Tensors;
    case TypeKind::IntType:
      return Operand::ListOf::Integers;
    case TypeKind::FloatType:
      return Operand::ListOf::Doubles;
    case TypeKind::BoolType:
      return Operand::ListOf::Booleans;
    default:
      refuse_type(parameter, "a list");
  }
}

IKEBANA_INLINE Operand operand_of_list(const c10::Argument& parameter,
                                       const GraphArgument& argument, const Bindings& bindings) {
  Operand operand;
  operand.kind = Operand::Kind::List;
  operand.list_of = list_kind(parameter);
  const bool of_tensors = operand.list_of == Operand::ListOf::Tensors ||
                          operand.list_of == Operand::ListOf::OptionalTensors;
  for (const GraphElement& given : argument.elements) {
    ListElement element;
    element.constant = given.constant;
    if (!given.name.empty()) {
      const Binding& binding = bound(given.name, bindings);
      if (binding.kind == Binding::Kind::Constant)
        throw Refusal{"has a list with a constant input"};
      if (is_tensor(binding) != of_tensors) refuse_type(parameter, "a list of other values");
      element.slot = binding.slot;
      element.is_attribute = binding.kind == Binding::Kind::Attribute;
    } else if (of_tensors ? operand.list_of != Operand::ListOf::OptionalTensors
                          : given.constant.isNone()) {
      refuse_type(parameter, "a list with an element of another type");
    }
    operand.elements.push_back(std::move(element));
  }
  return operand;
}

IKEBANA_INLINE Operand operand_of(const c10::Argument& parameter, const GraphArgument& argument,
                                  const Bindings& bindings, c10::DeviceType exported_on) {
  switch (argument.form) {
    case GraphArgument::Form::Constant:
      return operand_of_constant(parameter, argument.constant, exported_on);
    case GraphArgument::Form::Value:
      return operand_of_value(parameter, bound(argument.elements[0].name, bindings), exported_on);
    case GraphArgument::Form::List:
      return operand_of_list(parameter, argument, bindings);
    default:
      throw Refusal{"has an argument of the kind `" + escaped(argument.kind) +
                    "`, which is not read"};
  }
}

IKEBANA_INLINE Operand default_operand(const c10::Argument& parameter) {
  if (const auto& value = parameter.default_value()) return constant_operand(*value);
  if (allows_none(parameter.type())) return constant_operand({});
  throw Refusal{"does not give `" + parameter.name() + "`, which has no default"};
}

IKEBANA_INLINE Operand untyped_operand(const GraphArgument& argument, const Bindings& bindings) {
  if (argument.form == GraphArgument::Form::Constant) return constant_operand(argument.constant);
  if (argument.form == GraphArgument::Form::Value)
    return operand_of_binding(bound(argument.elements[0].name, bindings));
  throw Refusal{"has an argument of the kind `" + escaped(argument.kind) + "`, which is not read"};
}

}  // namespace ikebana::detail::pt2
