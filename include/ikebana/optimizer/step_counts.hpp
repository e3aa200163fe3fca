#pragma once
// Step counts of parameters, as tensors on the parameters' device: a rejected step must not count,
// and only the device knows whether it is rejected.
#include <ikebana/hooks.hpp>
#include <map>

namespace ikebana::detail {

/// Parameters whose first gradient comes in the same step share one count. If some of them have no
/// gradient in a later step, the others continue with a copy.
/// A template, so that only files whose recipe has an optimizer compile it.
template <class = void>
class StepCounts {
 public:
  void resize(std::size_t masters) { counts_.resize(masters); }
  /// The count of master `i`; undefined before its first gradient.
  at::Tensor& operator[](std::size_t i) { return counts_[i]; }

  static at::Tensor zero(const at::Tensor& p) {
    return at::zeros({}, p.options().dtype(at::kFloat).requires_grad(false));
  }
  /// Selects the masters that the coming steps count. Calls `begin(i)` for those without a count.
  template <class Begin>
  void count(const Masters& masters, const std::vector<std::size_t>& indices, const Begin& begin) {
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
  /// Allocates nothing on a CPU, except while a step is recorded.
  void add_one(const std::optional<at::Tensor>& found_inf) {
    for (auto& step : active_) {
      if (readable(step)) {
        if (!found_inf || number(*found_inf) == 0) *step.data_ptr<float>() += 1;
      } else {
        step.add_(1);
        if (found_inf) step.sub_(*found_inf);
      }
    }
  }
  /// The distinct counts of the present step.
  const Tensors& active() const { return active_; }
  /// Forgets the counts of these masters, whose first step was undone, and the selection.
  void forget(const std::vector<std::size_t>& indices) noexcept {
    for (std::size_t i : indices) counts_[i].reset();
    active_.clear();
  }
  /// Shares one tensor among equal counts; called after loading.
  void share() {
    std::map<std::pair<std::string, float>, at::Tensor> shared;
    for (auto& step : counts_)
      if (step.defined())
        step = shared.try_emplace({step.device().str(), static_cast<float>(number(step))}, step)
                   .first->second;
  }

 private:
  /// Gives the selected masters a copy of each count that others share with them.
  void split(const std::vector<std::size_t>& indices) {
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

  Tensors counts_;  // by master; shared by masters that always counted together
  Tensors active_;  // the distinct counts of the present step
};

}  // namespace ikebana::detail
