#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/profile.hpp>
#include <ikebana/observe/profiler_loop.hpp>

namespace ikebana {

namespace detail {

IKEBANA_INLINE const char* phase_range(Phase phase) {
  switch (phase) {
    case Phase::Data:
      return "phase: data";
    case Phase::Forward:
      return "phase: forward";
    case Phase::Backward:
      return "phase: backward";
    default:
      return "phase: optimizer";
  }
}

}  // namespace detail

IKEBANA_INLINE void Mechanism<Observe<Profile>>::attach(c10::Device device,
                                                        const UnitTable& table) {
  detail::ProfilerLoop::check(values);
  detail::TraceFiles::check(values.folder);
  loop_ = std::make_shared<detail::ProfilerLoop>("Observe<Profile>", device);
  ranges_ = detail::unit_ranges(table);
}

IKEBANA_INLINE std::string Mechanism<Observe<Profile>>::describe() const {
  auto number = [](const char* name, std::int64_t value) {
    return std::string(name) + "=" + std::to_string(value);
  };
  return number("wait", values.wait) + ", " + number("warmup", values.warmup) + ", " +
         number("active", values.active) + ", " + number("repeat", values.repeat);
}

IKEBANA_INLINE void Mechanism<Observe<Profile>>::enter_step(std::int64_t rank, std::int64_t ranks) {
  loop_->set_place({rank, ranks});
  loop_->begin_step(values);
}
IKEBANA_INLINE void Mechanism<Observe<Profile>>::leave_step() { loop_->end_step(); }
IKEBANA_INLINE void Mechanism<Observe<Profile>>::leave_failed_step() noexcept {
  loop_->fail_step();
}
IKEBANA_INLINE void Mechanism<Observe<Profile>>::stop() { loop_->stop(); }
IKEBANA_INLINE bool Mechanism<Observe<Profile>>::has_result() const { return loop_->has_result(); }
IKEBANA_INLINE const ProfileResult& Mechanism<Observe<Profile>>::result() const {
  return loop_->result();
}

}  // namespace ikebana
