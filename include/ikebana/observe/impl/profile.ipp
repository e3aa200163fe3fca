#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/profile.hpp>
#include <ikebana/observe/profiler_loop.hpp>

namespace ikebana {

namespace detail {

inline constexpr std::string_view unit_prefix = "unit: ";

IKEBANA_INLINE ProfiledUnit::ProfiledUnit(ProfilerLoop& loop, const std::string& range)
    : loop_(loop), name_(range), range_(range), first_node_(at::sequence_number::peek()) {}

IKEBANA_INLINE ProfiledUnit::~ProfiledUnit() {
  const std::uint64_t end = at::sequence_number::peek();
  if (!loop_.is_recording() || end == first_node_) return;
  try {
    loop_.add({at::RecordFunction::currentThreadId(), first_node_, end,
               name_.substr(unit_prefix.size())});
  } catch (const std::bad_alloc&) {  // its backward is then shown without a unit
  }
}

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
  for (const Unit& unit : table.units())
    ranges_.push_back(std::string(detail::unit_prefix) + (unit.is_root() ? "(model)" : unit.name));
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
