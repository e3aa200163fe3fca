#pragma once
// Step counts of parameters, as tensors on the parameters' device: a rejected step must not count,
// and only the device knows if it is rejected.
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// Parameters whose first gradient comes in the same step share one count. If some of them have no
/// gradient in a later step, the others continue with a copy.
class StepCounts {
 public:
  void resize(std::size_t masters) { counts_.resize(masters); }
  /// Returns the count of master `i`, which is undefined before its first gradient.
  at::Tensor& operator[](std::size_t i) { return counts_[i]; }

  static at::Tensor zero(const at::Tensor& p);
  /// Selects the masters that the coming steps count. Calls `begin(i)` for those without a count.
  void count(const Masters& masters, const std::vector<std::size_t>& indices,
             c10::function_ref<void(std::size_t)> begin);
  /// Allocates nothing on a CPU, except while a step is recorded.
  void add_one(const std::optional<at::Tensor>& found_inf);
  /// Returns the distinct counts of the present step.
  const Tensors& active() const { return active_; }
  /// Forgets the counts of these masters, whose first step was undone, and the selection.
  void forget(const std::vector<std::size_t>& indices) noexcept;
  /// Shares one tensor among equal counts; called after loading.
  void share();

 private:
  /// Gives the selected masters a copy of each count that others share with them.
  void split(const std::vector<std::size_t>& indices);

  Tensors counts_;  // the counts, by master; masters that always counted together share one
  Tensors active_;  // the distinct counts of the present step
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/engine/impl/step_counts.ipp>
#endif
