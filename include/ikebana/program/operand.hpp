#pragma once
// Converts an argument of a graph's node to the type that the operator's schema requires. Every
// type is checked here, once, so that a call does not check anything.
#include <functional>
#include <ikebana/program/graph.hpp>
#include <ikebana/program/instruction.hpp>
#include <unordered_map>

namespace ikebana::detail::pt2 {

/// The meaning of a name of a graph: a value, an attribute, or a constant.
struct Binding {
  enum class Kind : std::uint8_t { Tensor, Number, Attribute, Constant };
  Kind kind = Kind::Tensor;
  Slot slot = no_slot;        ///< the slot of a Value, or the index of an Attribute
  c10::IValue constant = {};  ///< the value of a Constant
};
using Bindings = std::unordered_map<std::string, Binding>;

/// The description of what is wrong with a node. It is thrown, and a load collects the texts of all
/// nodes.
struct Refusal {
  std::string text;
};

/// Makes the operand of a schema's argument. `exported_on` is the device on which the program's
/// weights were exported. In the operand, it stands for the device that the program will be on.
/// Throws Refusal.
Operand operand_of(const c10::Argument& parameter, const GraphArgument& argument,
                   const Bindings& bindings, c10::DeviceType exported_on);
/// Makes the operand of an argument that a node does not give, from the schema's default. Throws
/// Refusal if it has no default.
Operand default_operand(const c10::Argument& parameter);
/// Makes the operand of a function of numbers, or of a higher-order operator. Throws Refusal.
Operand untyped_operand(const GraphArgument& argument, const Bindings& bindings);
/// Returns the type of an argument or a result. For one that may be None, it is the type of the
/// other values.
c10::TypePtr without_none(const c10::TypePtr& type);
/// Returns the meaning of a name. Throws Refusal if nothing made it.
const Binding& bound(const std::string& name, const Bindings& bindings);

}  // namespace ikebana::detail::pt2

#ifndef IKEBANA_COMPILED
#include <ikebana/program/impl/operand.ipp>
#endif
