#pragma once
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/parameters/stored_parameters.hpp>

namespace ikebana {

IKEBANA_INLINE void UnitOrder::begin() {
  if (!entered_.empty()) last_.swap(entered_);
  entered_.clear(), left_.clear();
}

IKEBANA_INLINE std::size_t UnitOrder::enter(std::size_t unit, bool trains) {
  entered_.push_back(unit);
  if (trains) of_step_ = detail::fnv1a(of_step_, unit + 1);
  return entered_.size() - 1;
}

IKEBANA_INLINE std::optional<std::size_t> UnitOrder::after(std::size_t place) const {
  if (place + 1 >= last_.size() || last_[place] != entered_[place]) return {};
  return last_[place + 1];
}

IKEBANA_INLINE std::size_t UnitOrder::leave(std::size_t unit) {
  left_.push_back(unit);
  return left_.size() - 1;
}

IKEBANA_INLINE std::optional<std::size_t> UnitOrder::before(std::size_t place) const {
  if (place == 0 || place > left_.size()) return {};
  return left_[place - 1];
}

}  // namespace ikebana

namespace ikebana::detail {

IKEBANA_INLINE void refuse_use_outside_run(const Unit& unit, const at::Tensor& leaf) {
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    if (!unit.parameters[i].is_same(leaf)) continue;
    const std::string used = "step: the loss uses `" + unit.names[i] + "` outside of ";
    if (unit.is_root())
      throw BadModel(used + "the loss function, so it is not trained. Compute all of it there.");
    throw BadModel(used + "run, so unit `" + unit.name +
                   "` is not trained. Write run(unit, x) instead of unit(x). Register a parameter "
                   "that is also used elsewhere in the model itself, too.");
  }
}

IKEBANA_INLINE void refuse_unused(const Unit& unit, const std::string& how_to_allow) {
  throw BadModel("step: no microbatch ran unit `" + unit.name +
                 "`, so it is not trained. Write run(unit, x) in the loss instead of unit(x)." +
                 how_to_allow);
}

}  // namespace ikebana::detail
