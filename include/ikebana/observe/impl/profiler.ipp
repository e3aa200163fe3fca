#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/observe/profiler.hpp>
#include <ikebana/observe/profiler_loop.hpp>

namespace ikebana {

IKEBANA_INLINE Profiler::Profiler(Observe<Profile> options, c10::Device device)
    : options_(std::move(options)),
      loop_(std::make_unique<detail::ProfilerLoop>("Profiler", device)) {
  detail::ProfilerLoop::check(options_);
  detail::TraceFiles::check(options_.folder);
}
IKEBANA_INLINE Profiler::~Profiler() = default;
IKEBANA_INLINE Profiler::Profiler(Profiler&&) noexcept = default;
IKEBANA_INLINE Profiler& Profiler::operator=(Profiler&&) noexcept = default;

IKEBANA_INLINE void Profiler::start() {
  if (loop_->is_running())
    throw Error("Profiler: start() was called twice. Call step() after each iteration.");
  loop_->begin_step(options_);
}

IKEBANA_INLINE void Profiler::step() {
  if (!loop_->is_running())
    throw Error("Profiler: step() was called before start(). Call start() before the first step.");
  loop_->end_step();
  loop_->begin_step(options_);
}

IKEBANA_INLINE void Profiler::stop() {
  if (!loop_->is_running())
    throw Error("Profiler: stop() was called before start(). Call start() before the first step.");
  loop_->stop();
}

IKEBANA_INLINE std::int64_t Profiler::step_num() const { return loop_->step_num(); }
IKEBANA_INLINE bool Profiler::has_result() const { return loop_->has_result(); }
IKEBANA_INLINE const ProfileResult& Profiler::result() const { return loop_->result(); }

}  // namespace ikebana
