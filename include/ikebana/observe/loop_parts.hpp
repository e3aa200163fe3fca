#pragma once
// Defines the parts into which the time of a training loop is divided.
#include <cstddef>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// A part of a loop's time: the four phases of Phase, the four of InnerPhase, and two
/// more, in the order of phase_fields.
enum class LoopPart : unsigned {
  Data,
  Forward,
  Backward,
  Optimizer,
  Gather,
  Reduce,
  Offload,
  Recompute,
  Other,   ///< the rest of a step
  Between  ///< from one step to the next
};
inline constexpr std::size_t loop_parts = phase_fields.size();

}  // namespace ikebana::detail
