#pragma once
// Defines the policy ChainedScheduler and its mechanism.
#include <ikebana/detail/text.hpp>
#include <ikebana/schedule/composed.hpp>

namespace ikebana {

/// Several schedules at once: their factors are multiplied. The base of each is the rate of the one
/// before it, in the order in which they are written. They may be any schedule of the library or
/// your own, except OneCycleLR and CyclicLR, which set the rate themselves, and ReduceLROnPlateau;
/// a field `eta_min` must be 0. `schedules` has no default. Source:
/// torch.optim.lr_scheduler.ChainedScheduler; docs/schedule.md lists the differences.
template <class... Schedules>
struct ChainedScheduler {
  std::tuple<Schedules...> schedules = {};  ///< all of them, in order
  std::int64_t warmup_steps = 0;            ///< steps of a linear rise before it
};
template <class... Schedules>
ChainedScheduler(std::tuple<Schedules...>) -> ChainedScheduler<Schedules...>;

template <class... Schedules>
struct Mechanism<ChainedScheduler<Schedules...>>
    : detail::ComposedSchedule<ChainedScheduler<Schedules...>, Schedules...> {
  using Base = detail::ComposedSchedule<ChainedScheduler<Schedules...>, Schedules...>;
  using Base::values;
  explicit Mechanism(ChainedScheduler<Schedules...> v) : Base(std::move(v)) {
    this->check_values(*this);
  }

  void check() const {
    this->check_parts();
    this->each([](const auto& m) { detail::each_schedule(m, refuse_floor); });
  }
  double rate(double base, std::int64_t step) const { return Base::rate(*this, base, step); }
  double after_warmup(double base, double t) const {
    this->each([&](const auto& m) { base = m.rate(base, static_cast<std::int64_t>(t)); });
    return base;
  }
  double momentum(double base, std::int64_t step) const {
    this->each([&](const auto& m) { base = m.momentum(base, this->own_step(step)); });
    return base;
  }
  std::string describe() const {
    return "schedules=" + this->describe_parts() +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }

 private:
  static constexpr auto refuse_floor = [](const auto& m) {
    if constexpr (requires { m.values.eta_min; })
      if (m.values.eta_min != 0)
        throw BadValue("ChainedScheduler: eta_min of " +
                       detail::type_name<std::decay_t<decltype(m.values)>>() + " is " +
                       c10::str(m.values.eta_min) +
                       ", and what is chained must multiply the rate. Write it with eta_min 0, or "
                       "the schedules one after another in a SequentialLR.");
  };
};

}  // namespace ikebana
