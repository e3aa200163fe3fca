#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/freeze/units.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Freeze<>>::Mechanism(Freeze<> v)
    : values(std::move(v)), rule_(values.match) {
  if (!values.match)
    throw BadValue(
        "Freeze<>: match is empty; it has no rule. Give one: Freeze<>{.match = \"embed.*\"}.");
}

IKEBANA_INLINE void Mechanism<Freeze<>>::freeze(const UnitTable& table) {
  torch::nn::Module& model = *table.units()[0].module;
  for (const auto& item : model.named_parameters())
    if (values.match(item.key(), item.value())) frozen_.add(item.value());
  if (frozen_.size() == 0)
    throw BadValue("Freeze<>: its rule matches no parameter" +
                   detail::nearest_names(values.match.patterns(), model.named_parameters().keys()) +
                   ". Correct it, or leave Freeze out; the rule is called with the names of "
                   "named_parameters().");
  frozen_.check(model, "Freeze<>");
}

}  // namespace ikebana
