#pragma once
#include <atomic>
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/observe/profiler_loop.hpp>
#include <ikebana/observe/quiet_log.hpp>
#include <ikebana/posix/process.hpp>

namespace ikebana::detail {

/// The object that profiles in this process, or null.
__attribute__((visibility("default"))) inline std::atomic<const void*> process_profiler = nullptr;

IKEBANA_INLINE ProfilerAction profiler_action(const Observe<Profile>& values, std::int64_t step) {
  if (step < values.skip_first) return ProfilerAction::Wait;
  step -= values.skip_first;
  if (values.skip_first_wait != 0) step += values.wait;
  const std::int64_t cycle = values.wait + values.warmup + values.active;
  if (values.repeat > 0 && step / cycle >= values.repeat) return ProfilerAction::Wait;
  const std::int64_t at = step % cycle;
  if (at < values.wait) return ProfilerAction::Wait;
  if (at < values.wait + values.warmup) return ProfilerAction::Warmup;
  return at < cycle - 1 ? ProfilerAction::Record : ProfilerAction::RecordAndSave;
}

IKEBANA_INLINE void ProfilerLoop::check(const Observe<Profile>& v) {
  auto number = [](const char* name, std::int64_t value, std::int64_t least) {
    if (value < least || value > std::int64_t{1} << 48)
      throw BadValue(std::string("Observe<Profile>: ") + name + " is " + std::to_string(value) +
                     ". Write a number of at least " + std::to_string(least) + ".");
  };
  number("wait", v.wait, 0), number("warmup", v.warmup, 0), number("active", v.active, 1);
  number("repeat", v.repeat, 0), number("skip_first", v.skip_first, 0);
  number("max_events", v.max_events, 1);
  if (v.execution_trace && v.folder.empty())
    throw BadValue(
        "Observe<Profile>: execution_trace is true, and there is no folder to write it to. Set "
        "folder, or set execution_trace to false.");
  if (v.worker_name.find('/') != std::string::npos)
    throw BadValue("Observe<Profile>: worker_name is \"" + v.worker_name +
                   "\", which is no name of a file. Write the folder as folder.");
}

IKEBANA_INLINE ProfilerLoop::~ProfilerLoop() {
  if (is_recording_ && std::this_thread::get_id() != thread_) {
    TORCH_WARN(owner_,
               " was destroyed on another thread than it records: nothing was written, and "
               "LibTorch's profiler stays on. Call stop() on the thread of the steps before.");
    return;
  }
  try {
    if (is_running_) stop();
  } catch (const std::exception& error) {
    TORCH_WARN(owner_, " could not end its last window: ", error.what(),
               " Call stop() before it is destroyed, which throws this.");
  }
}

IKEBANA_INLINE void ProfilerLoop::check_thread() const {
  if (is_recording_ && std::this_thread::get_id() != thread_)
    throw Error(std::string(owner_) +
                ": a step began on another thread than the active window, and LibTorch's profiler "
                "records one thread. Make all steps of a window on one thread, or call stop() "
                "there before.");
}

IKEBANA_INLINE void ProfilerLoop::begin_step(const Observe<Profile>& values) {
  check(values);
  check_thread();
  if (!is_recording_ && values.folder != values_.folder) TraceFiles::check(values.folder);
  values_ = values;
  const ProfilerAction next = profiler_action(values, step_num_);
  const bool records = next == ProfilerAction::Record || next == ProfilerAction::RecordAndSave;
  if (!records) has_ended_early_ = false;
  if (is_recording_ && !records) finish(/*is_truncated=*/true);  // the schedule was changed
  if (next != ProfilerAction::Wait && !is_prepared_ && !has_ended_early_) prepare();
  if (records && !is_recording_ && !has_ended_early_) record();
  action_ = next, is_running_ = true;
  if (!range_) open_range();
}

IKEBANA_INLINE void ProfilerLoop::open_range() {
  range_.emplace(at::RecordScope::USER_SCOPE);
  if (range_->isActive()) range_->before("ProfilerStep#" + std::to_string(step_num_));
}

IKEBANA_INLINE void ProfilerLoop::end_step() {
  check_thread();
  range_.reset();
  ++step_num_;
  if (action_ == ProfilerAction::RecordAndSave) has_ended_early_ = false;
  if (!is_recording_) return;
  if (action_ == ProfilerAction::RecordAndSave) return finish(/*is_truncated=*/false);
  if (counted() < values_.max_events) return open_range();
  has_ended_early_ = true;
  finish(/*is_truncated=*/true);
}

IKEBANA_INLINE void ProfilerLoop::fail_step() noexcept {
  if (is_recording_ && std::this_thread::get_id() != thread_) return;  // check_thread has thrown
  range_.reset();
  ++step_num_;
  if (!is_recording_) return;
  try {
    finish(/*is_truncated=*/true);
  } catch (const std::exception& error) {
    TORCH_WARN(owner_, " could not write the window of a step that threw: ", error.what(),
               " Read result() if it has events.");
  }
}

IKEBANA_INLINE void ProfilerLoop::stop() {
  check_thread();
  range_.reset();
  is_running_ = false;
  if (is_recording_) return finish(action_ != ProfilerAction::RecordAndSave);
  if (!is_prepared_) return;
  record();  // only a recording ends what was prepared
  files_->drop_execution_trace();
  end_recording();
}

IKEBANA_INLINE const ProfileResult& ProfilerLoop::result() const {
  if (result_ == nullptr)
    throw Error(std::string(owner_) + ": no active window has ended yet, after " +
                std::to_string(step_num_) +
                " steps. Ask after skip_first + wait + warmup + active steps, or call stop() "
                "before.");
  return *result_;
}

IKEBANA_INLINE torch::profiler::impl::ProfilerConfig ProfilerLoop::config() const {
  return torch::profiler::impl::ProfilerConfig(
      torch::profiler::impl::ProfilerState::KINETO, values_.record_shapes || values_.with_flops,
      values_.profile_memory, /*with_stack=*/false, values_.with_flops);
}

IKEBANA_INLINE std::set<torch::profiler::impl::ActivityType> ProfilerLoop::activities() const {
  std::set<torch::profiler::impl::ActivityType> all{torch::profiler::impl::ActivityType::CPU};
  if (device_.is_cuda()) all.insert(torch::profiler::impl::ActivityType::CUDA);
  return all;
}

IKEBANA_INLINE void ProfilerLoop::acquire() {
  const void* free = nullptr;
  const bool is_ours = process_profiler.compare_exchange_strong(free, this) || free == this;
  if (is_ours && !torch::autograd::profiler::isProfilerEnabledInMainThread() &&
      torch::profiler::impl::ProfilerStateBase::get() == nullptr)
    return;
  if (is_ours) release();
  throw Error(std::string(owner_) +
              ": another profiler of this process is in its warm-up or records, and LibTorch can "
              "record for one at a time. End the window of the other trainer or Profiler, or "
              "torch.profiler's, before this step.");
}

IKEBANA_INLINE void ProfilerLoop::release() noexcept {
  const void* own = this;
  process_profiler.compare_exchange_strong(own, nullptr);
}

IKEBANA_INLINE void ProfilerLoop::prepare() {
  acquire();
  // LibTorch's profiler reads it once. Without it, it writes to stderr that there is no GPU.
  set_variable_unless_set("KINETO_LOG_LEVEL", "99");
  try {
    torch::autograd::profiler::prepareProfiler(config(), activities());
  } catch (...) {
    abandon();
    throw;
  }
  is_prepared_ = true;
}

IKEBANA_INLINE void ProfilerLoop::abandon() noexcept {
  is_recording_ = is_prepared_ = false;
  counter_.reset();
  if (files_) files_->drop_execution_trace();
  try {
    const QuietLog quiet;
    if (torch::profiler::impl::ProfilerStateBase::get() == nullptr) begin_and_record_nothing();
    torch::autograd::profiler::disableProfiler();
  } catch (
      const std::exception&) {  // The next profiler begins again, or throws what LibTorch does.
  }
  release();
}

IKEBANA_INLINE void ProfilerLoop::begin_and_record_nothing() {
  try {
    torch::autograd::profiler::prepareProfiler(config(), activities());
  } catch (const c10::Error&) {  // LibTorch has prepared it before, and takes it for active.
  }
  torch::autograd::profiler::enableProfiler(config(), activities(), {at::RecordScope::FUNCTION});
}

IKEBANA_INLINE std::int64_t& ProfilerLoop::counted() {
  static thread_local std::int64_t number = 0;
  return number;
}

IKEBANA_INLINE std::unique_ptr<at::ObserverContext> ProfilerLoop::count(const at::RecordFunction&) {
  ++counted();
  return nullptr;
}

IKEBANA_INLINE void ProfilerLoop::record() {
  using at::RecordScope;
  acquire();
  files_.emplace(values_.folder, values_.worker_name, place_);
  if (values_.execution_trace) files_->begin_execution_trace();
  at::Tensor before = values_.profile_memory ? at::empty({1}) : at::Tensor();
  const std::unordered_set<RecordScope> scopes{
      RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION, RecordScope::USER_SCOPE};
  try {
    counter_.emplace(at::RecordFunctionCallback(&count).scopes(scopes));
    torch::autograd::profiler::enableProfiler(config(), activities(), scopes);
  } catch (...) {
    abandon();
    throw;
  }
  // LibTorch says once that it does not know the memory from before: of this tensor's.
  if (const QuietLog quiet; before.defined()) before.reset();
  is_recording_ = true, thread_ = std::this_thread::get_id(), first_step_ = step_num_;
  counted() = 0;
  units_.clear();
  ThreadRanges::get().open();
}

IKEBANA_INLINE ProfilerLoop::Recording ProfilerLoop::end_recording() {
  if (!device_.is_cpu()) bridge::synchronize(device_);
  is_recording_ = is_prepared_ = false;
  counter_.reset();
  Recording recording{nullptr, ThreadRanges::get().close()};
  try {
    const QuietLog quiet;  // LibTorch warns of each operator whose operations it cannot count
    recording.trace = torch::autograd::profiler::disableProfiler();
  } catch (...) {
    abandon();
    throw;
  }
  release();
  return recording;
}

IKEBANA_INLINE void ProfilerLoop::finish(bool is_truncated) {
  auto result = std::make_shared<ProfileResult>();
  const Recording recording = end_recording();
  files_->end_execution_trace(*result);
  result->first_step = first_step_, result->is_truncated = is_truncated;
  result->steps = std::max<std::int64_t>(step_num_ - first_step_, is_running_ ? 0 : 1);
  result->start_ns = static_cast<std::int64_t>(recording.trace->trace_start_ns());
  result->record_shapes = values_.record_shapes || values_.with_flops;
  result->profile_memory = values_.profile_memory, result->with_flops = values_.with_flops;
  const UnitsOfNodes units(std::exchange(units_, {}));
  result->events =
      ProfileEvents(recording.trace->events(), recording.ranges, units, device_.is_cuda()).make();
  result_ = result;
  files_->write(*recording.trace, recording.ranges, *result);
  if (values_.on_trace_ready) values_.on_trace_ready(*result);
}

}  // namespace ikebana::detail
