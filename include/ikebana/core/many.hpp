#pragma once
// The mechanism of an axis that takes several policies, and how a mechanism is built.
#include <ikebana/core/off.hpp>
#include <ikebana/grammar/compose.hpp>
#include <ikebana/hooks/non_finite.hpp>
#include <tuple>

namespace ikebana {

namespace detail {
/// True where a mechanism overrides a hook of a unit's backward.
template <class M>
inline constexpr bool overrides_backward =
    !std::is_same_v<decltype(&M::before_unit_backward), void (UnitBackwardHooks::*)(const Unit&)> ||
    !std::is_same_v<decltype(&M::after_unit_backward), void (UnitBackwardHooks::*)(const Unit&)>;
template <class M>
  requires requires { M::listens_to_backward; }
inline constexpr bool overrides_backward<M> = M::listens_to_backward;

/// Divides the gradients by their divisor. Under a loss scale an overflow is found before, since a
/// policy that sees these gradients could make it finite.
template <class Gradients>
void make_true(Gradients& gradients) {
  if (!gradients.divisor.defined()) return;
  if (gradients.loss_is_scaled) {
    const at::Tensor found = any_non_finite(gradients.values);
    gradients.overflow =
        gradients.overflow.defined() ? at::maximum(gradients.overflow, found) : found;
  }
  gradients.apply_divisor();
}

}  // namespace detail

/// Several policies of one axis. Each is asked; the first written is the outermost.
template <class... Policies>
struct Mechanism<Many<Policies...>> {
  using null_mechanism = std::conditional_t<sizeof...(Policies) == 0, Mechanism, void>;
  static constexpr bool listens_to_backward =
      (detail::overrides_backward<Mechanism<Policies>> || ...);

  template <class Values>
  explicit Mechanism(Values& values)
      : all_{Mechanism<Policies>(values.template take<Policies>())...} {}

  template <class Next>
  decltype(auto) around_step(Next&& next) {
    return around<0>([](auto& mechanism,
                        auto&& inner) -> decltype(auto) { return mechanism.around_step(inner); },
                     next);
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if constexpr (sizeof...(Policies) == 0) return next();
    else
      return around<0>(
          [phase](auto& mechanism, auto&& inner) -> decltype(auto) {
            return mechanism.around_phase(phase, inner);
          },
          next);
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    return around_unit_from<0>(unit, next, std::forward<Args>(args)...);
  }
  void before_unit_backward(const Unit& unit) {
    each([&](auto& mechanism) { mechanism.before_unit_backward(unit); });
  }
  void after_unit_backward(const Unit& unit) {
    each([&](auto& mechanism) { mechanism.after_unit_backward(unit); });
  }

  /// A policy that does not declare `takes_divisor` sees the true gradients.
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    each([&]<class M>(M& mechanism) {
      if constexpr (!M::takes_divisor) detail::make_true(gradients);
      mechanism.clip(gradients, ranks);
      if constexpr (!M::takes_divisor) gradients.norm_is_current = false;
    });
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks& ranks,
              detail::DeferredCheck& deferred) {
    each([&]<class M>(M& mechanism) {
      if constexpr (!M::takes_divisor) detail::make_true(gradients);
      mechanism.accept(gradients, loss, ranks, deferred);
    });
  }

  template <class F>
  void each([[maybe_unused]] F&& f) {
    (f(get<Policies>()), ...);
  }
  template <class Policy>
  Mechanism<Policy>& get() {
    return std::get<Mechanism<Policy>>(all_);
  }

 private:
  template <std::size_t I, class Ask, class Next>
  decltype(auto) around(Ask ask, Next&& next) {
    if constexpr (I == sizeof...(Policies)) return next();
    else
      return ask(std::get<I>(all_), [&]() -> decltype(auto) { return around<I + 1>(ask, next); });
  }
  template <std::size_t I, class Next, class... Args>
  decltype(auto) around_unit_from(const Unit& unit, Next&& next, Args&&... args) {
    if constexpr (I == sizeof...(Policies)) return next(std::forward<Args>(args)...);
    else {
      auto inner = [&](auto&&... a) -> decltype(auto) {
        return around_unit_from<I + 1>(unit, next, std::forward<decltype(a)>(a)...);
      };
      return std::get<I>(all_).around_unit(unit, inner, std::forward<Args>(args)...);
    }
  }

  std::tuple<Mechanism<Policies>...> all_;
};

namespace detail {

template <class Policy, class Values>
Mechanism<Policy> make_mechanism(Values& values) {
  if constexpr (made_from<Policy, Many>) return Mechanism<Policy>(values);
  else return Mechanism<Policy>(values.template take<Policy>());
}

/// Calls `f(mechanism)`, for each policy of an axis that takes several.
template <class Policy, class F>
void each_policy(Mechanism<Policy>& mechanism, F&& f) {
  if constexpr (made_from<Policy, Many>) mechanism.each(f);
  else f(mechanism);
}

}  // namespace detail
}  // namespace ikebana
