#pragma once
// Defines the policy SequentialLR and its mechanism.
#include <algorithm>
#include <ikebana/schedule/composed.hpp>
#include <vector>

namespace ikebana {

/// One schedule after another: at step `milestones[i]` schedule i + 1 begins, with its own step 0.
/// The schedules may be any of the library or your own, except PerEpoch and ReduceLROnPlateau.
/// `schedules` and `milestones` have no default. `SequentialLR<LinearLR, StepLR>{.schedules =
/// {...}, .milestones = {100}}`. Source: torch.optim.lr_scheduler.SequentialLR.
template <class... Schedules>
struct SequentialLR {
  std::tuple<Schedules...> schedules = {};    ///< in order
  std::vector<std::int64_t> milestones = {};  ///< steps at which the second and later ones begin
  std::int64_t warmup_steps = 0;              ///< steps of a linear rise before it
};
template <class... Schedules>
SequentialLR(std::tuple<Schedules...>, std::vector<std::int64_t>) -> SequentialLR<Schedules...>;

template <class... Schedules>
struct Mechanism<SequentialLR<Schedules...>>
    : detail::ComposedSchedule<SequentialLR<Schedules...>, Schedules...> {
  using Base = detail::ComposedSchedule<SequentialLR<Schedules...>, Schedules...>;
  using Base::values;
  explicit Mechanism(SequentialLR<Schedules...> v) : Base(std::move(v)) {
    this->check_values(*this);
  }

  void check() const {
    const auto& milestones = values.milestones;
    if (milestones.size() + 1 != sizeof...(Schedules))
      throw BadValue(
          "SequentialLR: it has " + std::to_string(sizeof...(Schedules)) + " schedules and " +
          std::to_string(milestones.size()) +
          " milestones. Write the step at which each schedule but the first begins, "
          "e.g. SequentialLR<LinearLR, StepLR>{.schedules = {...}, .milestones = {100}}.");
    const bool increase = std::adjacent_find(milestones.begin(), milestones.end(),
                                             std::greater_equal<>()) == milestones.end();
    detail::check_schedule("SequentialLR", increase && (milestones.empty() || milestones[0] > 0),
                           "milestones must be increasing steps, from 1 on.");
    this->check_parts();
  }
  double rate(double base, std::int64_t step) const { return Base::rate(*this, base, step); }
  double after_warmup(double base, double t) const {
    return at(static_cast<std::int64_t>(t),
              [&](const auto& m, std::int64_t step) { return m.rate(base, step); });
  }
  double momentum(double base, std::int64_t step) const {
    if (this->cycles_momentum()) detail::refuse_recorded_momentum();
    return at(this->own_step(step),
              [&](const auto& m, std::int64_t own) { return m.momentum(base, own); });
  }
  std::string describe() const {
    return "schedules=" + this->describe_parts() +
           ", milestones=" + detail::braced(values.milestones) +
           ", warmup_steps=" + std::to_string(values.warmup_steps);
  }

 private:
  /// Calls `f(mechanism, its own step)` for the schedule of this step.
  template <class F>
  double at(std::int64_t step, const F& f) const {
    const auto& milestones = values.milestones;
    const auto next = std::upper_bound(milestones.begin(), milestones.end(), step);
    const auto present = static_cast<std::size_t>(next - milestones.begin());
    const std::int64_t begin = present == 0 ? 0 : milestones[present - 1];
    double result = 0;
    this->each_index([&](auto i) {
      if (i == present) result = f(this->template part<i>(), step - begin);
    });
    return result;
  }
};

}  // namespace ikebana
