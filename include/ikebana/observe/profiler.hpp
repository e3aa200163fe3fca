#pragma once
// A profiler for a loop by hand.
#include <ikebana/observe/profile_options.hpp>
#include <memory>

namespace ikebana {

namespace detail {
class ProfilerLoop;
}  // namespace detail

/// A profiler for a loop by hand: `start`, then `step` after each iteration, and `stop` after the
/// last one. The recipe's `Observe<Profile>` is made of the same parts. It records the thread that
/// calls it and the threads of its backward; of other threads each `Range`.
///
/// One profiler records in a process at a time: a second one is an Error, also beside Python's. The
/// destructor does what `stop` does; a file that it cannot write is a warning.
class Profiler {
 public:
  /// Throws as `Observe<Profile>` does. Kernels of a device are recorded if it is given.
  explicit Profiler(Observe<Profile> options = {}, c10::Device device = at::kCPU);
  ~Profiler();
  Profiler(Profiler&&) noexcept;             ///< moves the profiler, also while it records
  Profiler& operator=(Profiler&&) noexcept;  ///< ends this profiler, and moves the other one here

  /// Begins the first step. Throws Error if it runs already.
  void start();
  /// Ends a step, and begins the next one. Throws Error before `start`, and on another thread while
  /// it records.
  void step();
  /// Ends the last step. A window that is open ends, too. Throws Error before `start`.
  void stop();

  /// Returns the number of the present step, from 0.
  std::int64_t step_num() const;
  /// Returns true after the end of the first active window.
  bool has_result() const;
  /// Returns the result of the last active window. Throws Error before that.
  const ProfileResult& result() const;

 private:
  Observe<Profile> options_;
  std::unique_ptr<detail::ProfilerLoop> loop_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/profiler.ipp>
#endif
