#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensors.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/program/input_check.hpp>
#include <ikebana/program/listed.hpp>
#include <ikebana/program/trees.hpp>

namespace ikebana::detail::pt2 {

/// Returns the name of a symbol, if an expression is one: `Symbol('s0', positive=True,
/// integer=True)`.
IKEBANA_INLINE std::string symbol_in(const std::string& expression) {
  constexpr std::string_view begin = "Symbol('";
  if (!expression.starts_with(begin)) return {};
  const std::size_t end = expression.find('\'', begin.size());
  if (end == std::string::npos || expression.find(')') != expression.size() - 1) return {};
  return expression.substr(begin.size(), end - begin.size());
}

IKEBANA_INLINE InputCheck::Size InputCheck::size_of(const GraphSize& size,
                                                    const ProgramModel& model) {
  Size result;
  result.number = size.number;
  if (size.expression.empty()) return result;
  const std::string name = symbol_in(size.expression);
  result.is_checked = !name.empty();
  if (name.empty()) return result;
  const auto found = std::find_if(symbols_.begin(), symbols_.end(),
                                  [&](auto& symbol) { return symbol.name == name; });
  result.symbol = static_cast<std::size_t>(found - symbols_.begin());
  if (found == symbols_.end()) {
    const auto range = model.ranges.find(name);
    symbols_.push_back({name, range == model.ranges.end() ? SymbolRange() : range->second});
  }
  return result;
}

IKEBANA_INLINE InputCheck::InputCheck(const ProgramModel& model) {
  using Kind = GraphInput::Kind;
  const auto is_argument = [](const GraphInput& input) {
    return input.kind == Kind::User || input.kind == Kind::Constant;
  };
  const auto names =
      pt2::input_names(model, static_cast<std::size_t>(std::count_if(
                                  model.inputs.begin(), model.inputs.end(), is_argument)));
  std::size_t argument = 0;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const GraphInput& input = model.inputs[i];
    if (!is_argument(input)) continue;
    const std::string& name = names[argument++];
    const GraphArgument* in_graph =
        i < model.graph.inputs.size() ? &model.graph.inputs[i] : nullptr;
    InputSlot slot;
    slot.name = name.empty() ? input.value : name;
    if (in_graph != nullptr && in_graph->kind.starts_with("as_sym")) slot.number = in_graph->kind;
    slot.is_constant = input.kind == Kind::Constant;
    if (slot.is_constant && in_graph != nullptr) slot.constant = in_graph->constant;
    inputs_.push_back(std::move(slot));
    Expected expected;
    const auto found = model.graph.tensors.find(input.value);
    expected.is_known = found != model.graph.tensors.end();
    if (expected.is_known) {
      expected.dtype = found->second.dtype;
      for (const GraphSize& size : found->second.sizes)
        expected.sizes.push_back(size_of(size, model));
    }
    expected_.push_back(std::move(expected));
  }
}

IKEBANA_INLINE std::string InputCheck::listed() const {
  std::vector<InputSlot> free;
  for (const InputSlot& slot : inputs_)
    if (!slot.is_constant) free.push_back(slot);
  const std::string text = pt2::listed(free, [](const InputSlot& one) { return one.name; });
  return text.empty() ? "nothing" : text;
}

/// Returns the index of the input for which a value is given. `position` is the index of the next
/// input without a name. A tensor never stands for a constant. Throws BadBatch if no input is
/// meant.
IKEBANA_INLINE std::size_t InputCheck::place_of(const GivenInput& given, std::size_t& position,
                                                const std::vector<GivenInput>& all) const {
  const auto is_free = [](const InputSlot& slot) { return !slot.is_constant; };
  const bool is_only =
      all.size() == 1 && std::count_if(inputs_.begin(), inputs_.end(), is_free) == 1;
  if (given.name.empty() || (is_only && given.value.isTensor())) {
    while (position < inputs_.size() && inputs_[position].is_constant && given.value.isTensor())
      ++position;
    if (position < inputs_.size()) return position++;
  } else {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].name == given.name) return i;
  }
  std::string names;
  for (const GivenInput& one : all)
    names += (names.empty() ? "" : ", ") + (!one.name.empty()      ? "`" + escaped(one.name) + "`"
                                            : one.value.isTensor() ? "a tensor"
                                                                   : "a number");
  if (given.name.starts_with("field "))  // as clang before 18 writes it, which does not spell the
                                         // names of fields
    throw BadBatch("Program: it takes " + listed() +
                   ", and this compiler does not tell names of fields. Give a map, a tuple, or use "
                   "g++ or clang 18.");
  throw BadBatch("Program: it takes " + listed() + ", and was given " + names +
                 ". Give tensors by these names, in a struct or a map, or by position, in a "
                 "tuple.");
}

/// Throws BadBatch if a value is not the one in the graph.
IKEBANA_INLINE void InputCheck::check_constant(const InputSlot& slot, const c10::IValue& given) {
  const bool are_numbers = given.isScalar() && slot.constant.isScalar();
  if (are_numbers && given.toScalar().toDouble() == slot.constant.toScalar().toDouble()) return;
  throw BadBatch("Program: `" + slot.name + "` was " + c10::str(slot.constant) +
                 " when the model was exported, which its graph cannot change, and " +
                 (given.isTensor() ? "a tensor" : c10::str(given)) +
                 " was given. Leave it out, or export the model with the other value.");
}

/// Returns a number as the graph takes it. Throws BadBatch for a number of another kind.
IKEBANA_INLINE c10::IValue InputCheck::number_for(const InputSlot& slot, const c10::IValue& given) {
  const bool takes_fractions = slot.number == "as_sym_float",
             takes_flags = slot.number == "as_sym_bool";
  if (takes_fractions && given.isInt()) return static_cast<double>(given.toInt());
  if (takes_fractions ? given.isDouble() : takes_flags ? given.isBool() : given.isInt())
    return given;
  throw BadBatch("Program: `" + slot.name + "` is a " +
                 (takes_fractions ? "double"
                  : takes_flags   ? "bool"
                                  : "whole number") +
                 ", and " + c10::str(given) +
                 " was given. Give it what the model was exported with.");
}

IKEBANA_INLINE Values InputCheck::arranged(std::vector<GivenInput> given) const {
  std::vector<c10::IValue> values(inputs_.size());
  std::size_t position = 0;
  for (GivenInput& one : given) {
    const std::size_t place = place_of(one, position, given);
    const InputSlot& slot = inputs_[place];
    if (!values[place].isNone())
      throw BadBatch("Program: `" + slot.name +
                     "` is given twice. Give each input once, by name or by position.");
    const bool takes_number = !slot.number.empty();
    if (slot.is_constant) check_constant(slot, one.value);
    else if (one.value.isTensor() == takes_number)
      throw BadBatch("Program: `" + slot.name + "` is a " +
                     (takes_number ? "number, and a tensor" : "tensor, and a number") +
                     " was given. Give it what the model was exported with.");
    values[place] = takes_number ? number_for(slot, one.value) : one.value;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!inputs_[i].is_constant &&
        (values[i].isNone() || (values[i].isTensor() && !values[i].toTensor().defined())))
      throw BadBatch("Program: `" + inputs_[i].name + "` is missing; it takes " + listed() +
                     ". Give all of them.");
  check(values);
  Values arranged;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!inputs_[i].is_constant) arranged.push_back(std::move(values[i]));
  return arranged;
}

IKEBANA_INLINE void InputCheck::check_size(std::size_t input, std::size_t dim, std::int64_t given,
                                           std::vector<std::int64_t>& symbols) const {
  const Size& size = expected_[input].sizes[dim];
  auto refuse = [&](const std::string& what, const std::string& cure) {
    throw BadBatch("Program: dimension " + std::to_string(dim) + " of `" + inputs_[input].name +
                   "` is " + std::to_string(given) + ", and " + what + ". " + cure);
  };
  if (!size.is_checked) return;
  if (size.symbol == none) {
    if (size.number != given)
      refuse("the model was exported for " + std::to_string(size.number),
             "Export it with dynamic_shapes for that dimension, or give batches of that size.");
    return;
  }
  const Symbol& symbol = symbols_[size.symbol];
  if (given < symbol.range.min || given > symbol.range.max)
    refuse("the model was exported for " + std::to_string(symbol.range.min) + " to " +
               (symbol.range.max == std::numeric_limits<std::int64_t>::max()
                    ? std::string("any number")
                    : std::to_string(symbol.range.max)),
           "Export it with another range, as Dim(\"rows\", min=1), or give other batches.");
  std::int64_t& value = symbols[size.symbol];
  if (value >= 0 && value != given)
    refuse("the model was exported for one that equals another dimension, which is " +
               std::to_string(value),
           "Give inputs whose sizes agree.");
  value = given;
}

IKEBANA_INLINE void InputCheck::check(const Values& values) const {
  std::vector<std::int64_t> symbols(symbols_.size(), -1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Expected& expected = expected_[i];
    if (!expected.is_known || !values[i].isTensor()) continue;
    const at::Tensor& tensor = values[i].toTensor();
    const bool both_real = at::isFloatingType(tensor.scalar_type()) &&
                           at::isFloatingType(expected.dtype);  // a precision may have cast it
    if ((tensor.scalar_type() != expected.dtype && !both_real) ||
        static_cast<std::size_t>(tensor.dim()) != expected.sizes.size())
      throw BadBatch("Program: `" + inputs_[i].name + "` is " + tensor_text(tensor) +
                     ", and the model was exported for " + c10::toString(expected.dtype) + " of " +
                     std::to_string(expected.sizes.size()) +
                     " dimensions. Convert it before, or export the model for it.");
    for (std::size_t dim = 0; dim < expected.sizes.size(); ++dim)
      check_size(i, dim, tensor.size(static_cast<std::int64_t>(dim)), symbols);
  }
}

}  // namespace ikebana::detail::pt2
