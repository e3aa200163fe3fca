#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/step_counts.hpp>
#include <map>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor StepCounts::zero(const at::Tensor& p) {
  return at::zeros({}, p.options().dtype(at::kFloat).requires_grad(false));
}

IKEBANA_INLINE void StepCounts::count(const Masters& masters,
                                      const std::vector<std::size_t>& indices,
                                      c10::function_ref<void(std::size_t)> begin) {
  at::Tensor shared;
  for (std::size_t i : indices) {
    const at::Tensor& p = masters.values[i];
    if (counts_[i].defined()) continue;
    if (!shared.defined() || shared.device() != p.device()) shared = zero(p);
    begin(i);
    counts_[i] = shared;
  }
  split(indices);
}

IKEBANA_INLINE void StepCounts::add_one(const std::optional<at::Tensor>& found_inf) {
  for (auto& step : active_) {
    if (readable(step)) {
      if (!found_inf || number(*found_inf) == 0) *step.data_ptr<float>() += 1;
    } else {
      step.add_(1);
      if (found_inf) step.sub_(*found_inf);
    }
  }
}

IKEBANA_INLINE void StepCounts::forget(const std::vector<std::size_t>& indices) noexcept {
  for (std::size_t i : indices) counts_[i].reset();
  active_.clear();
}

IKEBANA_INLINE void StepCounts::share() {
  std::map<std::pair<std::string, float>, at::Tensor> shared;
  for (auto& step : counts_)
    if (step.defined())
      step = shared.try_emplace({step.device().str(), static_cast<float>(number(step))}, step)
                 .first->second;
}

IKEBANA_INLINE void StepCounts::split(const std::vector<std::size_t>& indices) {
  std::map<c10::TensorImpl*, std::size_t> users, active_users;
  for (auto& step : counts_)
    if (step.defined()) ++users[step.unsafeGetTensorImpl()];
  for (std::size_t i : indices) ++active_users[counts_[i].unsafeGetTensorImpl()];
  std::map<c10::TensorImpl*, at::Tensor> continued;
  active_.clear();
  for (std::size_t i : indices) {
    auto* key = counts_[i].unsafeGetTensorImpl();
    auto [found, is_new] = continued.try_emplace(key, counts_[i]);
    if (is_new) {
      if (active_users[key] != users[key]) found->second = counts_[i].clone();
      active_.push_back(found->second);
    }
    counts_[i] = found->second;
  }
}

}  // namespace ikebana::detail
