#pragma once
#include <ikebana/checkpoint/recompute.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Every unit keeps its inputs only, and is computed again in backward: activations of one unit at
/// a time, for about one more forward. Changes no bit: random numbers, autocast and buffers are put
/// back. Source: Chen et al., arXiv:1604.06174; torch.utils.checkpoint(use_reentrant=False).
template <>
struct Checkpoint<Full> {};

template <>
struct Mechanism<Checkpoint<Full>> : Hooks {
  static constexpr bool per_unit = true;
  Checkpoint<Full> values;
  explicit Mechanism(Checkpoint<Full> v) : values(v) {}

  void attach(c10::Device device, const UnitTable& table) {
    if (!bridge::saved_tensor_hooks_available())
      throw Error(
          "Checkpoint<Full>: this process runs another autograd engine (Python's), which leaves no "
          "room for saved-tensor hooks. Leave Checkpoint out, or train outside Python.");
    device_ = device;
    units_.clear();
    for (const Unit& unit : table.units())
      units_.push_back(std::make_shared<const detail::RecomputedUnit>(
          detail::RecomputedUnit{unit.is_root() ? "the model" : unit.name, unit.module}));
  }
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    if (!at::GradMode::is_enabled()) return next(std::forward<Args>(args)...);
    return detail::recompute_in_backward(units_[unit.index], device_, next, next.owned(),
                                         std::forward<Args>(args)...);
  }

 private:
  c10::Device device_ = at::kCPU;
  std::vector<std::shared_ptr<const detail::RecomputedUnit>> units_;
};

}  // namespace ikebana
