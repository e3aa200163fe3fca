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

/// The name of a symbol, if an expression is one: `Symbol('s0', positive=True, integer=True)`.
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
  const auto is_argument = [](const GraphInput& input) {  // of forward; a constant is never given
    return input.kind == Kind::User || input.kind == Kind::Constant;
  };
  const auto names =
      pt2::input_names(model, static_cast<std::size_t>(std::count_if(
                                  model.inputs.begin(), model.inputs.end(), is_argument)));
  std::size_t argument = 0;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    const GraphInput& input = model.inputs[i];
    const std::string name = is_argument(input) ? names[argument++] : std::string();
    if (input.kind != Kind::User) continue;
    Expected expected;
    const auto found = model.graph.tensors.find(input.value);
    expected.is_known = found != model.graph.tensors.end();
    if (expected.is_known) {
      expected.dtype = found->second.dtype;
      for (const GraphSize& size : found->second.sizes)
        expected.sizes.push_back(size_of(size, model));
    }
    const bool is_number =
        i < model.graph.inputs.size() && model.graph.inputs[i].kind.starts_with("as_sym");
    inputs_.push_back({name.empty() ? input.value : name, is_number});
    expected_.push_back(std::move(expected));
  }
}

IKEBANA_INLINE std::string InputCheck::listed() const {
  const std::string text = pt2::listed(inputs_, [](const InputSlot& one) { return one.name; });
  return text.empty() ? "nothing" : text;
}

/// The index of the input that a given value is for. Throws BadBatch if no input is meant.
IKEBANA_INLINE std::size_t InputCheck::place_of(const GivenInput& given, std::size_t position,
                                                const std::vector<GivenInput>& all) const {
  if (given.name.empty() || (all.size() == 1 && inputs_.size() == 1)) {
    if (position < inputs_.size()) return position;
  } else {
    for (std::size_t i = 0; i < inputs_.size(); ++i)
      if (inputs_[i].name == given.name) return i;
  }
  std::string names;
  for (const GivenInput& one : all)
    names += (names.empty() ? "" : ", ") +
             (one.name.empty() ? "a tensor" : "`" + escaped(one.name) + "`");
  if (given.name.starts_with("field "))  // as clang before 18, which does not spell them
    throw BadBatch("Program: it takes " + listed() +
                   ", and this compiler does not tell names of fields. Give a map, a tuple, or use "
                   "g++ or clang 18.");
  throw BadBatch("Program: it takes " + listed() + ", and was given " + names +
                 ". Give tensors by these names, in a struct or a map, or by position, in a "
                 "tuple.");
}

IKEBANA_INLINE Values InputCheck::arranged(std::vector<GivenInput> given) const {
  Values values(inputs_.size());
  std::size_t position = 0;
  for (GivenInput& one : given) {
    const std::size_t place = place_of(one, position, given);
    if (one.name.empty()) ++position;
    if (!values[place].isNone())
      throw BadBatch("Program: `" + inputs_[place].name +
                     "` is given twice. Give each input once, by name or by position.");
    if (one.value.isTensor() == inputs_[place].is_number)
      throw BadBatch("Program: `" + inputs_[place].name + "` is a " +
                     (inputs_[place].is_number ? "number, and a tensor" : "tensor, and a number") +
                     " was given. Give it what the model was exported with.");
    values[place] = one.value;
  }
  for (std::size_t i = 0; i < values.size(); ++i)
    if (values[i].isNone() || (values[i].isTensor() && !values[i].toTensor().defined()))
      throw BadBatch("Program: `" + inputs_[i].name + "` is missing; it takes " + listed() +
                     ". Give all of them.");
  check(values);
  return values;
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
