#pragma once
#include <ikebana/checkpoint/frame/operator_rule.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana {

IKEBANA_INLINE bool matrix_operators(const bridge::OperatorCall& call) {
  const auto& list = detail::costly_operators;
  return std::find(std::begin(list), std::end(list), call.name().name) != std::end(list);
}

IKEBANA_INLINE OperatorRule operators(std::vector<std::string> names) {
  const auto known = c10::Dispatcher::singleton().getAllOpNames();
  const auto& custom = bridge::custom_operators;
  for (const std::string& name : names)
    if (std::none_of(known.begin(), known.end(), [&](const auto& op) { return op.name == name; }) &&
        std::find(std::begin(custom), std::end(custom), name) == std::end(custom))
      throw BadValue("operators: LibTorch has no operator `" + name +
                     "`. Write the name as in LibTorch's dispatcher, e.g. aten::mm.");
  if (std::find(names.begin(), names.end(), "aten::_to_copy") != names.end())
    throw BadValue("operators: casts (aten::_to_copy) are always computed again. Leave it out.");
  return [names = std::move(names)](const bridge::OperatorCall& call) {
    return std::find(names.begin(), names.end(), call.name().name) != names.end();
  };
}

}  // namespace ikebana
