#pragma once
// Whether this thread records a step, so that its operators can be replayed later.
#include <ikebana/detail/flag_scope.hpp>

namespace ikebana::detail {

inline constinit thread_local bool is_recording = false;

/// True while this thread records a step. A recording sees operators that are dispatched, and
/// nothing else: what the host reads from a tensor, writes to one or computes itself would be
/// repeated with the values of the recorded step. So everything takes the path of a device whose
/// numbers the host cannot read (`readable`).
inline bool recording() noexcept { return is_recording; }

/// RAII: this thread records a step. It says nothing of other threads: backward runs on the same
/// thread on a CPU, and on one of autograd's for a device.
struct RecordingScope : FlagScope {
  RecordingScope() : FlagScope(is_recording) {}
};

}  // namespace ikebana::detail
