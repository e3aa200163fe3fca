#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/freeze/units.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

IKEBANA_INLINE FrozenSet::~FrozenSet() {
  FrozenRegistry& registry = FrozenRegistry::get();
  std::lock_guard lock(registry.mutex);
  for (at::Tensor& p : to_restore_) {
    auto count = registry.counts.find(p.unsafeGetTensorImpl());
    if (--count->second > 0) continue;
    registry.counts.erase(count);
    p.set_requires_grad(true);
  }
}

IKEBANA_INLINE void FrozenSet::add(at::Tensor p) {
  c10::TensorImpl* const key = p.unsafeGetTensorImpl();
  if (!parameters_.insert(key).second) return;
  elements_ += p.numel();
  FrozenRegistry& registry = FrozenRegistry::get();
  std::lock_guard lock(registry.mutex);
  if (!p.requires_grad() && registry.counts.count(key) == 0) return;
  to_restore_.push_back(p);
  try {
    ++registry.counts[key];
  } catch (...) {
    to_restore_.pop_back();
    throw;
  }
  p.set_requires_grad(false);
}

IKEBANA_INLINE void FrozenSet::check(const torch::nn::Module& model, const char* policy) const {
  for (const auto& p : model.parameters())
    if (p.requires_grad()) return;
  throw BadModel(std::string(policy) + ": it freezes " + describe() +
                 ", and nothing is left to train. Freeze fewer.");
}

IKEBANA_INLINE std::string FrozenSet::describe() const {
  return std::to_string(size()) + " parameters, " + std::to_string(elements_) + " elements";
}

}  // namespace ikebana::detail

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
