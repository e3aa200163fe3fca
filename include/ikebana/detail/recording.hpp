#pragma once
// Defines a flag of a thread that records a step, so that the step's operators can be replayed
// later.
#include <ikebana/detail/flag_scope.hpp>

namespace ikebana::detail {

inline constinit thread_local bool is_recording = false;

/// Returns true while this thread records a step. A recording sees only operators that are
/// dispatched: if the host reads from a tensor, writes to one or computes itself, a replay repeats
/// that with the values of the recorded step. So everything takes the path of a device whose
/// numbers the host cannot read (`readable`).
inline bool recording() noexcept { return is_recording; }

/// RAII: this thread records a step. Other threads do not: backward runs on the same thread on a
/// CPU, and on a thread of autograd for a device.
struct RecordingScope : FlagScope {
  RecordingScope() : FlagScope(is_recording) {}
};

}  // namespace ikebana::detail
