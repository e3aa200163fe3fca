#pragma once
#include <ikebana/checkpoint/recompute.hpp>

namespace ikebana {

/// Every unit keeps its inputs only, and is computed again in backward: activations of one unit at
/// a time, for about one more forward. Changes no bit: random numbers, autocast and buffers are put
/// back. Source: Chen et al., arXiv:1604.06174; torch.utils.checkpoint(use_reentrant=False).
template <>
struct Checkpoint<Full> {};

template <>
struct Mechanism<Checkpoint<Full>> : detail::Recomputing {
  Checkpoint<Full> values;
  explicit Mechanism(Checkpoint<Full> v) : values(v) {}

  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    return in_own_frame(nullptr, unit, next, std::forward<Args>(args)...);
  }
};

}  // namespace ikebana
