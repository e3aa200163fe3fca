#pragma once
#include <ikebana/core/claim.hpp>
#include <ikebana/detail/each_once.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>

namespace ikebana::detail {

IKEBANA_INLINE ParameterClaim::ParameterClaim(std::vector<at::Tensor> parameters)
    : parameters_(std::move(parameters)) {
  ClaimRegistry& registry = ClaimRegistry::get();
  std::lock_guard lock(registry.mutex);
  for (const auto& p : parameters_)
    if (registry.counts.count(p.unsafeGetTensorImpl()))
      throw BadModel(
          "trainer: another trainer trains these parameters already. Destroy it first, or give "
          "each trainer a model of its own.");
  try {
    for (const auto& p : parameters_) registry.counts.emplace(p.unsafeGetTensorImpl(), 1);
  } catch (...) {
    release(registry);
    throw;
  }
}

IKEBANA_INLINE ParameterClaim::~ParameterClaim() {
  ClaimRegistry& registry = ClaimRegistry::get();
  std::lock_guard lock(registry.mutex);
  release(registry);
}

IKEBANA_INLINE void ParameterClaim::release(ClaimRegistry& registry) noexcept {
  for (const auto& p : parameters_) registry.counts.erase(p.unsafeGetTensorImpl());
}

IKEBANA_INLINE void check_trainable(const torch::nn::Module& module) {
  const auto named = each_once(module.named_parameters());
  if (named.empty())
    throw BadModel(
        "trainer: the model has no parameters. Register its modules (register_module) and "
        "parameters (register_parameter).");
  bool any = false;
  const auto& first = named[0];
  for (const auto& item : named) {
    const at::Tensor& p = item.value();
    any = any || p.requires_grad();
    if (p.is_meta())
      throw BadModel("trainer: `" + item.key() +
                     "` is on the device meta, so it has no values to train. Make it on the device "
                     "that computes. What a training takes is estimated without memory by "
                     "estimate(), which is given a callable that makes the model.");
    if (p.device() != first.value().device())
      throw BadModel("trainer: `" + first.key() + "` is on " + first.value().device().str() +
                     " and `" + item.key() + "` on " + p.device().str() +
                     ". Move the model to one device, or add On to the recipe: On{device}.");
    if (p.requires_grad() && !p.is_leaf())
      throw BadModel("trainer: `" + item.key() +
                     "` is computed from other tensors, so it cannot be updated. Register the "
                     "tensors it is computed from.");
    if (p.requires_grad() && !p.is_non_overlapping_and_dense())
      throw BadModel("trainer: `" + item.key() +
                     "` has gaps or overlaps in memory, which fused optimizers ignore. Register a "
                     "contiguous copy of it.");
  }
  if (!any)
    throw BadModel("trainer: all " + std::to_string(named.size()) +
                   " parameters of the model are frozen. Set requires_grad on those that are to "
                   "be trained.");
}

IKEBANA_INLINE std::vector<at::Tensor> trained_parameters(const UnitTable& table) {
  std::vector<at::Tensor> all;
  for (const Unit& unit : table.units())
    for (const auto& p : unit.parameters)
      if (p.requires_grad()) all.push_back(p);
  return all;
}

}  // namespace ikebana::detail
