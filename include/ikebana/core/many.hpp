#pragma once
// Defines the mechanism of an axis that takes several policies, and how a mechanism is built.
#include <ikebana/core/off.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/grammar/compose.hpp>
#include <ikebana/hooks/non_finite.hpp>
#include <tuple>

namespace ikebana {

namespace detail {
/// The base of the values that are given to a trainer, whatever their types.
struct AnyValues {};
/// One of several mechanisms, which need not be movable.
template <class Policy>
struct Held {
  Mechanism<Policy> held;
};

}  // namespace detail

/// Several policies of one axis. Each is asked; the first written is the outermost.
template <class... Policies>
struct Mechanism<Many<Policies...>> : private detail::Held<Policies>... {
  using null_mechanism = std::conditional_t<sizeof...(Policies) == 0, Mechanism, void>;
  static constexpr bool listens_to_backward = (Mechanism<Policies>::listens_to_backward || ...);
  static constexpr bool per_unit = (Mechanism<Policies>::per_unit || ...);

  template <class Values>
  explicit Mechanism(Values& values)
      : detail::Held<Policies>{Mechanism<Policies>(values.template take<Policies>())}... {}

  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core& core, const Batch& batch, Next&& next) {
    return around<0>(
        [&](auto& mechanism, auto&& inner) -> decltype(auto) {
          return mechanism.around_step(core, batch, inner);
        },
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

  template <class Ranks>
  void close_step(StepGradients& gradients, Ranks& ranks) {
    each([&](auto& mechanism) { mechanism.close_step(gradients, ranks); });
  }
  /// A user's own policy that does not declare `takes_divisor` sees the true gradients.
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    ask_each(gradients, [&](auto& mechanism) { mechanism.clip(gradients, ranks); });
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue& loss, Ranks& ranks,
              detail::DeferredCheck& deferred) {
    ask_each(gradients, [&](auto& mechanism) {
      if constexpr (own_policy<std::decay_t<decltype(mechanism.values)>>)
        detail::settle_finite_checks(gradients, deferred);
      mechanism.accept(gradients, loss, ranks, deferred);
    });
  }

  template <class Policy>
  Mechanism<Policy>& get() {
    return detail::Held<Policy>::held;
  }

 private:
  template <class F>
  void each([[maybe_unused]] F&& f) {
    (f(get<Policies>()), ...);
  }
  /// Asks each mechanism to change gradients. Before, gives them the form on which a user's own
  /// policy relies.
  template <class F>
  void ask_each(StepGradients& gradients, const F& f) {
    (ask_one<Policies>(gradients, f), ...);
  }
  template <class Policy, class F>
  void ask_one(StepGradients& gradients, const F& f) {
    if constexpr (!own_policy<Policy>) {
      f(get<Policy>());
    } else {
      const at::NoGradGuard no_grad;
      detail::find_overflow(gradients);
      if constexpr (!Mechanism<Policy>::takes_divisor) gradients.apply_divisor();
      f(get<Policy>());
      gradients.norm_is_current = false, gradients.squared_norm.reset();
      if (gradients.values.size() == gradients.indices.size()) return;
      throw BadModel(detail::type_name<Policy>() + ": it left " +
                     std::to_string(gradients.values.size()) + " gradients for " +
                     std::to_string(gradients.indices.size()) +
                     " parameters. Erase the index of a gradient together with its value.");
    }
  }
  template <std::size_t I, class Ask, class Next>
  decltype(auto) around(Ask ask, Next&& next) {
    if constexpr (I == sizeof...(Policies)) return next();
    else return ask(nth<I>(), [&]() -> decltype(auto) { return around<I + 1>(ask, next); });
  }
  template <std::size_t I, class Next, class... Args>
  decltype(auto) around_unit_from(const Unit& unit, Next&& next, Args&&... args) {
    if constexpr (I == sizeof...(Policies)) return next(std::forward<Args>(args)...);
    else {
      auto inner = [&](auto&&... a) -> decltype(auto) {
        return around_unit_from<I + 1>(unit, next, std::forward<decltype(a)>(a)...);
      };
      return nth<I>().around_unit(unit, inner, std::forward<Args>(args)...);
    }
  }
  template <std::size_t I>
  auto& nth() {
    return get<std::tuple_element_t<I, std::tuple<Policies...>>>();
  }
};

namespace detail {

template <class Policy>
inline constexpr bool has_no_values = false;
template <class Policy>
  requires is_null<Policy>
inline constexpr bool has_no_values<Policy> = std::is_empty_v<Policy>;
template <class Policy, class Values>
  requires(!has_no_values<Policy>)
Mechanism<Policy> make_mechanism(Values& values) {
  if constexpr (made_from<Policy, Many>) return Mechanism<Policy>(values);
  else return Mechanism<Policy>(values.template take<Policy>());
}
/// Makes the mechanism of a null choice. It is the same in all recipes, so one function makes it
/// for all.
template <class Policy>
  requires has_no_values<Policy>
Mechanism<Policy> make_mechanism(AnyValues&) {
  return Mechanism<Policy>(Policy{});
}

}  // namespace detail
}  // namespace ikebana
