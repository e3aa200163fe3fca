#pragma once
// The loop of a profiler over steps: when it records, and what is done with a window's records.
#include <ikebana/bridge/thread_callback.hpp>
#include <ikebana/detail/torch_profiler.hpp>
#include <ikebana/observe/profile_events.hpp>
#include <ikebana/observe/profile_options.hpp>
#include <ikebana/observe/trace_files.hpp>
#include <optional>
#include <thread>

namespace ikebana::detail {

/// The action of a profiler in a step.
enum class ProfilerAction { Wait, Warmup, Record, RecordAndSave };

/// Returns what is done in a step, from 0, as `torch.profiler.schedule` says it.
ProfilerAction profiler_action(const Observe<Profile>& values, std::int64_t step);

/// Profiles the steps between `begin_step` and `end_step`, which have Python's ranges
/// `ProfilerStep#n`. While a window is open, the range of the next step begins when one ends, so
/// that it has the time in which its batch is loaded.
class ProfilerLoop {
 public:
  /// `owner` is what error messages call it.
  ProfilerLoop(const char* owner, c10::Device device) : owner_(owner), device_(device) {}
  ProfilerLoop(const ProfilerLoop&) = delete;
  ProfilerLoop& operator=(const ProfilerLoop&) = delete;
  ~ProfilerLoop();

  static void check(const Observe<Profile>& values);
  void set_place(TraceFiles::Place place) { place_ = place; }

  /// Throws before anything else is done.
  void begin_step(const Observe<Profile>& values);
  /// Ends a step that was made.
  void end_step();
  /// Ends a step that threw: an open window ends. Throws nothing, because another exception is on
  /// its way; the result is kept, and its files are written if that is possible.
  void fail_step() noexcept;
  /// Ends the loop, and an open window. `begin_step` begins it again.
  void stop();

  bool is_recording() const { return is_recording_; }
  bool is_running() const { return is_running_; }
  std::int64_t step_num() const { return step_num_; }
  void add(UnitForward call) { units_.push_back(std::move(call)); }
  bool has_result() const { return result_ != nullptr; }
  const ProfileResult& result() const;

 private:
  torch::profiler::impl::ProfilerConfig config() const;
  std::set<torch::profiler::impl::ActivityType> activities() const;
  void check_thread() const;
  /// Throws if another profiler records. At most one object is the process's profiler.
  void acquire();
  void release() noexcept;
  void prepare();
  void record();
  void open_range();
  /// A recording that has ended.
  struct Recording {
    std::unique_ptr<torch::autograd::profiler::ProfilerResult> trace;
    std::vector<ThreadRange> ranges;
  };
  /// Ends the recording, which is off afterwards whatever it throws.
  Recording end_recording();
  /// Leaves LibTorch's profiler off after one of its functions has thrown, for want of memory.
  void abandon() noexcept;
  /// Begins a recording, without which LibTorch cannot end what it has prepared.
  void begin_and_record_nothing();
  /// Ends the recording and deals with its result.
  void finish(bool is_truncated);

  static std::unique_ptr<at::ObserverContext> count(const at::RecordFunction&);
  static std::int64_t& counted();

  const char* owner_;
  c10::Device device_;
  TraceFiles::Place place_;
  Observe<Profile> values_;  // those with which the present step began
  std::int64_t step_num_ = 0, first_step_ = 0;
  ProfilerAction action_ = ProfilerAction::Wait;
  bool is_running_ = false, is_prepared_ = false, is_recording_ = false;
  bool has_ended_early_ = false;  // the rest of the cycle is not recorded
  std::thread::id thread_;
  std::optional<at::RecordFunction> range_;
  std::optional<bridge::ThreadCallback> counter_;
  std::optional<TraceFiles> files_;
  std::vector<UnitForward> units_;
  std::shared_ptr<ProfileResult> result_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/profiler_loop.ipp>
#endif
