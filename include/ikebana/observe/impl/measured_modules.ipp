#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/observe/measured_modules.hpp>
#include <limits>
#include <map>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE MeasuredModules::MeasuredModules(const UnitTable& table, bool by_module) {
  if (by_module && table.units().size() == 1) {
    add_modules(*table.units()[0].module);
    return;
  }
  for (const Unit& unit : table.units()) {
    parts_.emplace_back().name = unit.name;
    for (const at::Tensor& p : unit.parameters) parts_.back().parameters += p.numel();
  }
}

IKEBANA_INLINE void MeasuredModules::add_modules(torch::nn::Module& root) {
  std::map<std::string, std::size_t> places;
  for (const auto& item : root.named_modules()) {
    const std::string& name = item.key();
    UnitTimes& part = parts_.emplace_back();
    part.name = name;
    places[name] = parts_.size() - 1;
    const auto dot = name.rfind('.');
    part.outer = dot == std::string::npos ? 0 : places[name.substr(0, dot)];
    for (const bool are_buffers : {false, true})
      for (const at::Tensor& t : are_buffers ? item.value()->buffers(/*recurse=*/false)
                                             : item.value()->parameters(/*recurse=*/false)) {
        if (!module_of_.emplace(t.unsafeGetTensorImpl(), parts_.size() - 1).second) continue;
        if (!are_buffers) part.parameters += t.numel();
      }
  }
}

IKEBANA_INLINE std::optional<std::size_t> MeasuredModules::owner(const at::Tensor& t) const {
  const auto found = module_of_.find(t.unsafeGetTensorImpl());
  return found == module_of_.end() ? std::nullopt : std::optional(found->second);
}

IKEBANA_INLINE void ModuleFollower::call(bridge::OperatorCall& call) {
  switch (direction()) {
    case Direction::Neither:
      return call.compute();
    case Direction::Forward:
      return call_in_forward(call);
    case Direction::Backward:
      return compute(call, module_of_node(), Direction::Backward);
  }
}

IKEBANA_INLINE void ModuleFollower::call_in_forward(bridge::OperatorCall& call) {
  std::optional<std::size_t> module;
  bool is_of_parameters = true;
  for (const c10::IValue& argument : call.arguments())
    visit_tensors(argument, [&](const at::Tensor& t) {
      const auto found = owner(t);
      is_of_parameters = is_of_parameters && found;
      if (!module) module = found;
    });
  if (module) last_ = *module;
  const std::size_t here = module.value_or(modules_.part(last_).outer);
  const std::uint64_t next = at::sequence_number::peek();  // autograd has made the node already
  if (next > 0 && (nodes_.empty() || nodes_.back().number < next - 1))
    nodes_.push_back({next - 1, here});
  compute(call, here, Direction::Forward);
  if (!module || !is_of_parameters) return;
  for (const c10::IValue& result : call.results())
    visit_tensors(result, [&](const at::Tensor& t) {
      if (!t.defined() || !t.has_storage()) return;
      derived_.insert_or_assign(t.storage().unsafeGetStorageImpl(),
                                Derived{t.storage().getWeakStorageImpl(), *module});
    });
}

IKEBANA_INLINE std::optional<std::size_t> ModuleFollower::owner(const at::Tensor& t) const {
  if (const auto found = modules_.owner(t)) return found;
  if (!t.defined() || !t.has_storage()) return {};
  const auto found = derived_.find(t.storage().unsafeGetStorageImpl());
  if (found == derived_.end() || found->second.memory.expired()) return {};
  return found->second.module;
}

IKEBANA_INLINE std::size_t ModuleFollower::module_of_node() const {
  const auto node = torch::autograd::get_current_node();
  if (node == nullptr || node->sequence_nr() == std::numeric_limits<std::uint64_t>::max())
    return 0;  // a gradient of a leaf is added up
  const auto after = std::upper_bound(
      nodes_.begin(), nodes_.end(), node->sequence_nr(),
      [](std::uint64_t number, const Node& other) { return number < other.number; });
  if (after == nodes_.begin()) return 0;
  const Node& made = *std::prev(after);
  return made.number == node->sequence_nr() ? made.module : modules_.part(made.module).outer;
}

}  // namespace ikebana::detail
