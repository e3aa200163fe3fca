#pragma once
// The base of SequentialLR, ChainedScheduler and PerEpoch: it holds the mechanisms of the schedules
// within.
#include <ikebana/detail/text.hpp>
#include <ikebana/hooks/closed_form.hpp>
#include <ikebana/schedule/cycling.hpp>
#include <tuple>
#include <utility>

namespace ikebana::detail {

/// A mechanism within another one, which need not be movable. `rate` is const and sets its values.
template <std::size_t I, class Schedule>
struct HeldSchedule {
  mutable Mechanism<Schedule> held;
};
template <class Indices, class... Schedules>
struct HeldSchedules;
template <std::size_t... I, class... Schedules>
struct HeldSchedules<std::index_sequence<I...>, Schedules...> : HeldSchedule<I, Schedules>... {
  template <class Values>
  explicit HeldSchedules(const Values& values)
      : HeldSchedule<I, Schedules>{Mechanism<Schedules>(std::get<I>(values))}... {}
};

/// Returns the schedules within a policy, as a tuple: its `schedules`, or its `schedule`.
template <class Policy>
decltype(auto) parts_of(Policy& policy) {
  if constexpr (requires { policy.schedules; }) return (policy.schedules);
  else return std::tie(policy.schedule);
}

/// The base of schedules that consist of schedules. Before each call a schedule within gets its
/// values, since users may change them between steps. All hooks are passed on to all schedules
/// within.
template <class Policy, class... Schedules>
struct ComposedSchedule : WarmupSchedule<Policy> {
  using WarmupSchedule<Policy>::values;
  static constexpr bool is_closed_form = (depends_on_step_alone<Mechanism<Schedules>> && ...);
  explicit ComposedSchedule(Policy v)
      : WarmupSchedule<Policy>(std::move(v)), held_(parts_of(this->values)) {}

  /// Calls `f(mechanism)` for each schedule, in order.
  template <class F>
  void each(const F& f) const {
    each_index([&](auto i) { f(part<i>()); });
  }
  bool cycles_momentum() const {
    bool any = false;
    each([&](const auto& m) {
      if constexpr (requires { m.cycles_momentum(); }) any = any || m.cycles_momentum();
    });
    return any;
  }

  void attach(c10::Device device, const UnitTable& units) {
    each([&](auto& m) { m.attach(device, units); });
  }
  void begin(const Masters& masters) {
    each([&](auto& m) { m.begin(masters); });
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    each([&](auto& m) { m.prepare(masters, gradients, rate); });
  }
  void after_update(const Masters& masters, const StepGradients& gradients) noexcept {
    each_index([&](auto i) { held<i>().after_update(masters, gradients); });
  }
  void end_step(const StepGradients& gradients, Report& report) noexcept {
    each_index([&](auto i) { held<i>().end_step(gradients, report); });
  }
  void abort() noexcept {
    each_index([&](auto i) { held<i>().abort(); });
  }
  void end_epoch(const Epoch& epoch) {
    each([&](auto& m) { m.end_epoch(epoch); });
  }
  void state(Archive& archive, const Masters& masters) {
    each_index([&](auto i) {
      auto& m = part<i>();
      archive.within("schedules." + std::to_string(i), [&] { m.state(archive, masters); });
      std::get<i>(parts_of(values)) = m.values;
    });
  }

 protected:
  static constexpr std::size_t size = sizeof...(Schedules);

  template <class F>
  static void each_index(const F& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (f(std::integral_constant<std::size_t, I>()), ...);
    }(std::index_sequence_for<Schedules...>());
  }
  template <std::size_t I>
  auto& held() const {
    return held_at<I>(held_);
  }
  template <std::size_t I>
  auto& part() const {
    auto& mechanism = held<I>();
    mechanism.values = std::get<I>(parts_of(values));
    return mechanism;
  }
  /// Returns the number of steps after the warm-up.
  std::int64_t own_step(std::int64_t step) const {
    return std::max<std::int64_t>(step - values.warmup_steps, 0);
  }
  /// Throws BadValue if a schedule within refuses its values.
  void check_parts() const {
    each([](const auto& m) {
      if constexpr (requires { m.check_values(m); }) m.check_values(m);
    });
  }
  std::string describe_parts() const {
    std::string text;
    each([&](const auto& m) {
      text += (text.empty() ? "" : ", ") + type_name<std::decay_t<decltype(m.values)>>() + "{" +
              m.describe() + "}";
    });
    return "{" + text + "}";
  }

 private:
  template <std::size_t I, class Schedule>
  static Mechanism<Schedule>& held_at(const HeldSchedule<I, Schedule>& one) {
    return one.held;
  }
  HeldSchedules<std::index_sequence_for<Schedules...>, Schedules...> held_;
};

/// Calls `f(mechanism)` for it and for all schedules within it, at any depth.
template <class M, class F>
void each_schedule(const M& mechanism, const F& f) {
  f(mechanism);
  if constexpr (requires { mechanism.each([](const auto&) {}); })
    mechanism.each([&](const auto& inner) { each_schedule(inner, f); });
}

}  // namespace ikebana::detail
