#pragma once
// The values of the policy Observe<Profile>, which a Profiler takes as well.
#include <filesystem>
#include <functional>
#include <ikebana/hooks/common.hpp>
#include <ikebana/observe/profile_result.hpp>
#include <string>

namespace ikebana {

/// Profiles steps of the training, as `torch.profiler.profile` with `torch.profiler.schedule` does:
/// which operators, units and phases took how long, where, with how much memory. Of the steps it
/// skips `skip_first`; then it repeats a cycle of `wait` steps without profiling, `warmup` steps in
/// which the profiler is prepared, and `active` steps that are recorded. It ends after `repeat`
/// cycles. No bit of the training changes. After each active window the result is kept until the
/// next one, files are written, and `on_trace_ready` is called. Not in `ikebana.hpp`: include
/// `ikebana/observe/profile.hpp`. All fields may be changed between steps.
///
/// Cost: a step that is not active costs less than a microsecond more. An active one costs what
/// LibTorch's profiler costs, about a microsecond per operator (docs/profiler.md).
///
/// Throws BadValue for a negative number, and for `active` or `max_events` below 1; FileFailed if
/// the folder cannot be written to, which is tried when the trainer is made; Error if another
/// profiler records in this process when a window begins.
template <>
struct Observe<Profile> {
  std::int64_t wait = 1;             ///< steps of each cycle before the warm-up
  std::int64_t warmup = 1;           ///< steps in which the profiler is prepared
  std::int64_t active = 3;           ///< steps that are recorded
  std::int64_t repeat = 0;           ///< the cycles; 0: until the training ends
  std::int64_t skip_first = 0;       ///< steps before the first cycle
  std::int64_t skip_first_wait = 0;  ///< if it is not 0, the first cycle has no `wait`
  bool record_shapes = false;        ///< records the shapes of operators' inputs
  bool profile_memory = false;       ///< records what is allocated and freed
  /// Estimates the floating-point operations of products and convolutions. It records shapes, too.
  bool with_flops = false;
  /// The folder into which each window writes a Chrome trace for Perfetto, TensorBoard and HTA, and
  /// its averages as CSV. Several processes may share it. If it is empty, nothing is written.
  std::filesystem::path folder = {};
  /// The beginning of the files' names. If it is empty, host and process make it. On several ranks
  /// the rank stands before it.
  std::string worker_name = {};
  bool execution_trace = false;  ///< also writes PyTorch's execution trace into `folder`
  /// A window that has recorded so many operators and ranges ends with that step, which bounds the
  /// memory: a million takes about a gigabyte.
  std::int64_t max_events = 1'000'000;
  /// Is called with each result. If it throws, the step throws the same, after its update.
  std::function<void(const ProfileResult&)> on_trace_ready = {};
};

}  // namespace ikebana
