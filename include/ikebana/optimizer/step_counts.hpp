#pragma once
// How often each parameter was updated: numbers on its device, since a rejected step must not count
// and only the device knows.
#include <ikebana/hooks.hpp>
#include <map>

namespace ikebana::detail {

/// Parameters that begin together count in one tensor. Where some of them then sit out, the others
/// go on in a copy.
class StepCounts {
 public:
  void resize(std::size_t masters) { of_.resize(masters); }
  /// Undefined before the first gradient of master `i`.
  at::Tensor& operator[](std::size_t i) { return of_[i]; }

  static at::Tensor zero(const at::Tensor& p) {
    return at::zeros({}, p.options().dtype(at::kFloat).requires_grad(false));
  }
  /// From now on these are updated. `begin(i)` is called for those that never were.
  template <class Begin>
  void count(const Masters& masters, const std::vector<std::size_t>& indices, const Begin& begin) {
    at::Tensor fresh;
    for (std::size_t i : indices) {
      const at::Tensor& p = masters.values[i];
      if (of_[i].defined()) continue;
      if (!fresh.defined() || fresh.device() != p.device()) fresh = zero(p);
      begin(i);
      of_[i] = fresh;
    }
    part(indices);
  }
  void add_one(const std::optional<at::Tensor>& found_inf) noexcept {
    for (auto& step : active_) {
      if (step.is_cpu()) *step.data_ptr<float>() += 1;
      else step.add_(1);
      if (found_inf) step.sub_(*found_inf);
    }
  }
  /// After loading: equal counts are one tensor again.
  void share() {
    std::map<std::pair<std::string, float>, at::Tensor> shared;
    for (auto& step : of_)
      if (step.defined())
        step = shared.try_emplace({step.device().str(), static_cast<float>(number(step))}, step)
                   .first->second;
  }

 private:
  void part(const std::vector<std::size_t>& indices) {
    std::map<c10::TensorImpl*, std::size_t> users, active;
    for (auto& step : of_)
      if (step.defined()) ++users[step.unsafeGetTensorImpl()];
    for (std::size_t i : indices) ++active[of_[i].unsafeGetTensorImpl()];
    std::map<c10::TensorImpl*, at::Tensor> continued;
    active_.clear();
    for (std::size_t i : indices) {
      auto* key = of_[i].unsafeGetTensorImpl();
      auto [found, is_new] = continued.try_emplace(key, of_[i]);
      if (is_new) {
        if (active[key] != users[key]) found->second = of_[i].clone();
        active_.push_back(found->second);
      }
      of_[i] = found->second;
    }
  }

  Tensors of_;      // of each master; shared by those that always counted together
  Tensors active_;  // of the present step, each once
};

}  // namespace ikebana::detail
