#pragma once
// All mechanisms of a recipe, by the name of their axis, in wrapping order.
#include <ikebana/grammar/compose.hpp>
#include <ikebana/hooks.hpp>
#include <tuple>

namespace ikebana {

namespace detail {
/// True where a mechanism has its own `before_unit_backward` or `after_unit_backward`.
template <class M>
inline constexpr bool overrides_backward =
    !std::is_same_v<decltype(&M::before_unit_backward), void (Hooks::*)(const Unit&)> ||
    !std::is_same_v<decltype(&M::after_unit_backward), void (Hooks::*)(const Unit&)>;
template <class M>
  requires requires { M::listens_to_backward; }
inline constexpr bool overrides_backward<M> = M::listens_to_backward;

/// True where a mechanism has its own `gather`: then masters rest apart from working copies.
template <class... M>
inline constexpr bool any_gathers =
    (!std::is_same_v<decltype(&M::gather), Tensors (Hooks::*)(const Unit&, Tensors)> || ...);
}  // namespace detail

/// Several policies of one axis: each is asked, the first written is the outermost.
template <class... Policies>
struct Mechanism<Many<Policies...>> : Hooks {
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

  template <class F>
  void each(F&& f) {
    std::apply([&](auto&... mechanism) { (f(mechanism), ...); }, all_);
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

template <class Recipe>
struct Mechanisms;
template <class ObserveP, class CaptureP, class ShardP, class OffloadP, class CheckpointP,
          class PrecisionP, class PruneP, class QuantizeP, class AccumulateP, class ObjectiveP,
          class ClipP, class OptimizerP, class ScheduleP, class AverageP, class FreezeP,
          class DeviceP>
struct Mechanisms<
    Composed<ObserveP, CaptureP, ShardP, OffloadP, CheckpointP, PrecisionP, PruneP, QuantizeP,
             AccumulateP, ObjectiveP, ClipP, OptimizerP, ScheduleP, AverageP, FreezeP, DeviceP>> {
  /// Each is built from its policy's value: the one given, or the default.
  template <class Values>
  explicit Mechanisms(Values values)
      : observe(values),
        capture(values.template take<CaptureP>()),
        shard(values.template take<ShardP>()),
        offload(values.template take<OffloadP>()),
        checkpoint(values.template take<CheckpointP>()),
        precision(values.template take<PrecisionP>()),
        prune(values.template take<PruneP>()),
        quantize(values.template take<QuantizeP>()),
        accumulate(values.template take<AccumulateP>()),
        objective(values.template take<ObjectiveP>()),
        clip(values.template take<ClipP>()),
        optimizer(values.template take<OptimizerP>()),
        schedule(values.template take<ScheduleP>()),
        average(values.template take<AverageP>()),
        freeze(values.template take<FreezeP>()),
        device(values.template take<DeviceP>()) {}

  /// Calls `f(mechanism)` for each, outermost first.
  template <class F>
  void each(F&& f) {
    observe.each(f);
    f(capture), f(shard), f(offload), f(checkpoint), f(precision), f(prune), f(quantize);
    f(accumulate), f(objective), f(clip), f(optimizer), f(schedule), f(average), f(freeze),
        f(device);
  }

  /// True where a mechanism hears of a unit's backward; hooks are attached only then.
  static constexpr bool listens_to_backward = detail::overrides_backward<Mechanism<ShardP>> ||
                                              detail::overrides_backward<Mechanism<OffloadP>> ||
                                              detail::overrides_backward<Mechanism<ObserveP>>;
  static constexpr bool moves_parameters =
      detail::any_gathers<Mechanism<ShardP>, Mechanism<OffloadP>, Mechanism<PrecisionP>,
                          Mechanism<PruneP>, Mechanism<QuantizeP>>;
  /// True where working copies stay between steps, and are only made anew by `refresh_gathered`: whoever
  /// gathers slices or moves memory decides, and Precision where nobody does.
  static constexpr bool keeps_gathered =
      detail::any_gathers<Mechanism<ShardP>, Mechanism<OffloadP>>
          ? Mechanism<ShardP>::keeps_gathered || Mechanism<OffloadP>::keeps_gathered
          : Mechanism<PrecisionP>::keeps_gathered;
  static constexpr bool per_unit = Mechanism<ShardP>::per_unit || Mechanism<OffloadP>::per_unit ||
                                   Mechanism<CheckpointP>::per_unit ||
                                   Mechanism<PrecisionP>::per_unit;

  Mechanism<ObserveP> observe;
  Mechanism<CaptureP> capture;
  Mechanism<ShardP> shard;
  Mechanism<OffloadP> offload;
  Mechanism<CheckpointP> checkpoint;
  Mechanism<PrecisionP> precision;
  Mechanism<PruneP> prune;
  Mechanism<QuantizeP> quantize;
  Mechanism<AccumulateP> accumulate;
  Mechanism<ObjectiveP> objective;
  Mechanism<ClipP> clip;
  Mechanism<OptimizerP> optimizer;
  Mechanism<ScheduleP> schedule;
  Mechanism<AverageP> average;
  Mechanism<FreezeP> freeze;
  Mechanism<DeviceP> device;
};

}  // namespace ikebana
