#pragma once
// The methods of a trainer that give access to whole weights.
#include <ikebana/core/around_step.hpp>

namespace ikebana {

namespace detail {

/// True for an average of a user's own that does not override `restart`.
template <class M>
inline constexpr bool keeps_old_average = requires {
  requires own_policy<decltype(M::values)>;
  requires std::is_same_v<decltype(&M::restart), void (AverageHooks::*)() noexcept>;
};

}  // namespace detail

/// The base of `Trainer`, which is `Self`.
template <class Self>
class WeightMethods {
 public:
  /// Calls `f(model)` while all parameters are whole and on the model's device: the weights that
  /// are trained, also where the recipe averages them. What `f` writes to them is trained from then
  /// on. Of several ranks all call it.
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    return detail::together(core(), "with_full_weights", [&]() -> decltype(auto) {
      core().check_model();
      const bridge::OwnCastWeights casts(core().device.type());
      return core().parameters.with_full_weights(
          [&]() -> decltype(auto) { return f(core().model); });
    });
  }
  /// The same with the weights that `evaluate` uses: their average, where the recipe has one. For
  /// exporting a model. Afterwards the trained weights are restored, to the bit.
  template <class F>
  decltype(auto) with_averaged_weights(F&& f) {
    auto& average = core().mechanisms.average;
    if constexpr (detail::is_null_mechanism<std::decay_t<decltype(average)>>) {
      return with_full_weights(f);
    } else {
      detail::BusyGuard busy(core().busy);
      return detail::together(core(), "with_averaged_weights", [&]() -> decltype(auto) {
        return core().around_evaluation([&]() -> decltype(auto) { return with_full_weights(f); });
      });
    }
  }

  /// As `with_full_weights`, for an `f` that replaces the weights, such as `load_weights`: an
  /// average then starts anew from them. If `f` throws, it stays as it is.
  template <class F>
  void replace_weights(F&& f) {
    detail::BusyGuard busy(core().busy);
    auto& average = core().mechanisms.average;
    if (detail::keeps_old_average<std::decay_t<decltype(average)>>)
      throw BadModel(
          "load_weights: the mechanism of the recipe's `" +
          detail::type_name<std::decay_t<decltype(average.values)>>() +
          "` has no `void restart() noexcept`, which starts the average anew: "
          "evaluation would use the former weights. Write one; empty, if it keeps none.");
    with_full_weights(f);
    average.restart();
  }

 private:
  auto& core() { return static_cast<Self&>(*this).core(); }
};

}  // namespace ikebana
