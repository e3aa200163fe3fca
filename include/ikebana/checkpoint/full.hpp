#pragma once
// Checkpoint<Full>: every unit is recomputed.
#include <ikebana/checkpoint/frame/checkpoint_mechanism.hpp>

namespace ikebana {

/// Every unit keeps only its inputs and is recomputed in backward. Memory: the inputs of all units
/// and the activations of one unit at a time. Time: about one more forward. Changes no bit: random
/// number generators, autocast and buffers are restored for the recompute. Source: Chen et al.,
/// arXiv:1604.06174; torch.utils.checkpoint(use_reentrant=False).
template <>
struct Checkpoint<Full> {};

template <>
struct Mechanism<Checkpoint<Full>> : detail::CheckpointMechanism {
  using carries_out = Checkpoint<Full>;
  Checkpoint<Full> values;
  explicit Mechanism(Checkpoint<Full> v) : values(v) {}

  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    return checkpoint_unit(detail::full_frame(device_), unit, next, std::forward<Args>(args)...);
  }
};

}  // namespace ikebana
