#pragma once
// Defines the mechanism of the policy Observe<Profile>, whose values are in profile_options.hpp.
#include <ikebana/hooks.hpp>
#include <ikebana/observe/profiled_unit.hpp>
#include <ikebana/observe/profiler.hpp>
#include <ikebana/observe/range.hpp>

namespace ikebana {

namespace detail {

/// Returns the name of a phase's range: `phase: forward`.
const char* phase_range(Phase phase);

}  // namespace detail

template <>
struct Mechanism<Observe<Profile>> : ObserveHooks {
  using carries_out = Observe<Profile>;
  Observe<Profile> values;
  explicit Mechanism(Observe<Profile> v) : values(std::move(v)) {}

  void attach(c10::Device device, const UnitTable& table);
  std::string describe() const;

  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core& core, const Batch&, Next&& next) {
    const auto& ranks = core.mechanisms.shard.ranks();
    enter_step(ranks.data().rank(), ranks.data().size());
    auto report = [&] {
      try {
        return next();
      } catch (...) {
        leave_failed_step();
        throw;
      }
    }();
    leave_step();
    return report;
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    const Range range(detail::phase_range(phase));
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    const detail::ProfiledUnit range(*loop_, ranges_[unit.index]);
    return next(std::forward<Args>(args)...);
  }

  /// Ends an open window now, on the thread of the steps: for a program that does not end where it
  /// wants the result. The next step goes on with the schedule.
  void stop();
  /// Returns true after the end of the first active window.
  bool has_result() const;
  /// Returns the result of the last active window. Throws Error before that.
  const ProfileResult& result() const;

 private:
  void enter_step(std::int64_t rank, std::int64_t ranks);
  void leave_step();
  void leave_failed_step() noexcept;

  std::shared_ptr<detail::ProfilerLoop> loop_;
  std::vector<std::string> ranges_;  // by unit
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/profile.ipp>
#endif
