#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/member_tensors.hpp>
#include <ikebana/error.hpp>
#include <ikebana/model.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool is_unit<Children>::operator()(torch::nn::Module&,
                                                  const std::string& name) const {
  return name.find('.') == std::string::npos;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE UnitTable UnitTable::of_module(const std::shared_ptr<torch::nn::Module>& model,
                                              IsUnit is_unit) {
  UnitTable table;
  table.add("", model);
  for (auto& item : model->named_modules("", /*include_self=*/false))
    if (is_unit(*item.value(), item.key())) table.add(item.key(), item.value());
  table.own();
  return table;
}

IKEBANA_INLINE const Unit& UnitTable::at(const torch::nn::Module* module) const {
  auto found = index_.find(module);
  if (found == index_.end())
    throw BadModel("run: this " + (module ? module->name() : "empty holder") +
                   " is not one of the model's units. Register it in the model before the "
                   "trainer is made.");
  return units_[found->second];
}

IKEBANA_INLINE void UnitTable::add(const std::string& name,
                                   std::shared_ptr<torch::nn::Module> module) {
  const auto [found, is_new] = index_.try_emplace(module.get(), units_.size());
  if (!is_new) return units_[found->second].also_named.push_back(name);
  units_.push_back({name, std::move(module), {}, {}, units_.size(), {}, {}});
}

IKEBANA_INLINE std::size_t UnitTable::innermost(const std::string& name,
                                                const std::map<std::string, std::size_t>& by_name) {
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = name.rfind('.', dot - 1)) {
    auto found = by_name.find(name.substr(0, dot));
    if (found != by_name.end()) return found->second;
  }
  return 0;
}

IKEBANA_INLINE void UnitTable::own() {
  std::map<std::string, std::size_t> by_name;
  for (auto& item : units_[0].module->named_modules("", /*include_self=*/false))
    if (auto found = index_.find(item.value().get()); found != index_.end())
      by_name[item.key()] = found->second;
  std::vector<detail::ParameterPlace> places;
  std::unordered_map<const void*, std::size_t> seen;  // the index, by parameter; index_ has this
                                                      // type, too
  for (auto& item : units_[0].module->named_parameters()) {
    std::size_t unit = innermost(item.key(), by_name);
    auto [found, is_new] = seen.try_emplace(item.value().unsafeGetTensorImpl(), places.size());
    if (is_new) {
      places.push_back({item.value(), item.key(), unit, {}});
      continue;
    }
    detail::ParameterPlace& place = places[found->second];
    place.other_names.push_back(item.key());
    if (place.unit != unit) place.unit = 0;
  }
  add_assigned(seen, places);
  for (auto& place : places) {
    units_[place.unit].names.push_back(place.name);
    units_[place.unit].parameters.push_back(place.parameter);
    units_[place.unit].other_names.push_back(std::move(place.other_names));
  }
}

IKEBANA_INLINE void UnitTable::add_assigned(
    const std::unordered_map<const void*, std::size_t>& seen,
    std::vector<detail::ParameterPlace>& places) {
  auto each_of = [&](const std::string& module, torch::nn::Module& layer) {
    detail::each_member_of_libtorch(layer, [&](const char* member, const at::Tensor& tensor) {
      const auto found = seen.find(tensor.unsafeGetTensorImpl());
      if (found == seen.end()) return;
      detail::ParameterPlace& place = places[found->second];
      const std::string name = module.empty() ? member : module + "." + member;
      const auto& others = place.other_names;
      if (name != place.name && std::find(others.begin(), others.end(), name) == others.end())
        place.other_names.push_back(name);
    });
  };
  each_of("", *units_[0].module);
  for (auto& item : units_[0].module->named_modules("", /*include_self=*/false))
    each_of(item.key(), *item.value());
}

}  // namespace ikebana
