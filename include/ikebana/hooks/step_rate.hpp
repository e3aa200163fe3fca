#pragma once
// Defines the rate that a step gives optimizers, from the recipe's schedule: the `rate` of
// step.hpp.
#include <concepts>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace ikebana {

/// The learning rate and the momentum of one step. `rate(lr)` is the learning rate of this step for
/// the base learning rate `lr`; `rate.momentum(m)` the momentum, or the first of two betas, for the
/// base momentum `m`; `rate.step()` counts the attempted steps before this one. Hooks take it as
/// `const Rate&`, and may be called with any callable `double(double lr)` in tests: an optimizer
/// that has a momentum asks for it by `momentum_of(rate, m)`.
template <class Schedule>
class StepRate {
 public:
  /// Makes the rate of step `step`, from 0. Keeps a reference to the schedule's mechanism.
  StepRate(const Schedule& schedule, std::int64_t step) : schedule_(&schedule), step_(step) {}

  /// Returns the learning rate of this step for a base learning rate.
  double operator()(double base_lr) const { return schedule_->rate(base_lr, step_); }
  /// Returns the momentum, or first beta, of this step for a base momentum.
  double momentum(double base) const { return schedule_->momentum(base, step_); }
  /// Returns the number of attempted steps before this one.
  std::int64_t step() const { return step_; }

 private:
  const Schedule* schedule_;
  std::int64_t step_;
};

/// Returns the momentum of this step for the base momentum `base`, and `base` itself if `rate` is a
/// callable without a schedule.
template <class Rate>
double momentum_of(const Rate& rate, double base) {
  if constexpr (requires { rate.momentum(base); }) return rate.momentum(base);
  else return base;
}

namespace detail {

using ikebana::momentum_of;
/// Returns the number of attempted steps before this one, or -1 if `rate` does not know it.
template <class Rate>
std::int64_t step_of(const Rate& rate) {
  if constexpr (requires { rate.step(); }) return rate.step();
  else return -1;
}

/// Any rate, for the duration of a call: what asks it for numbers is then plain code, which is not
/// compiled for each schedule.
class RateRef {
 public:
  template <class Rate>
    requires(!std::same_as<Rate, RateRef>)
  RateRef(const Rate& rate)
      : rate_(reinterpret_cast<std::intptr_t>(&rate)),
        lr_([](std::intptr_t r, double base) -> double { return rate_at<Rate>(r)(base); }),
        momentum_([](std::intptr_t r, double base) -> double {
          return momentum_of(rate_at<Rate>(r), base);
        }),
        step_(step_of(rate)) {}

  double operator()(double base_lr) const { return lr_(rate_, base_lr); }
  double momentum(double base) const { return momentum_(rate_, base); }
  std::int64_t step() const { return step_; }

 private:
  using Function = double (*)(std::intptr_t rate, double base);
  template <class Rate>
  static const Rate& rate_at(std::intptr_t rate) {
    return *reinterpret_cast<std::add_pointer_t<const Rate>>(rate);
  }

  std::intptr_t rate_;  // the address of the rate, as an integer, because the address of a function
                        // is no void*
  Function lr_, momentum_;
  std::int64_t step_;
};

/// An optimizer with parameter groups has this member besides its hooks. `each_rate(rate, visit)`
/// calls `visit(lr)` with the learning rate of each group, then with the learning rate of the other
/// parameters. For an optimizer without this member, the function calls `visit` with the rate of
/// its `base_lr`.
template <class Optimizer, class Rate, class Visit>
void each_rate(const Optimizer& optimizer, const Rate& rate, const Visit& visit) {
  if constexpr (requires { optimizer.each_rate(rate, visit); }) optimizer.each_rate(rate, visit);
  else visit(rate(optimizer.base_lr()));
}

/// A copy of any rate, for an update that comes later in the same step.
class KeptRate {
 public:
  KeptRate() = default;
  template <class Rate>
  explicit KeptRate(const Rate& rate)
      : lr_(rate),
        momentum_([rate](double base) { return momentum_of(rate, base); }),
        step_(step_of(rate)) {}

  double operator()(double base_lr) const { return lr_(base_lr); }
  double momentum(double base) const { return momentum_(base); }
  std::int64_t step() const { return step_; }

 private:
  std::function<double(double)> lr_, momentum_;
  std::int64_t step_ = -1;
};

}  // namespace detail
}  // namespace ikebana
