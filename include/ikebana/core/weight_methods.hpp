#pragma once
// The methods of a trainer that give access to whole weights.
#include <ikebana/core/around_step.hpp>

namespace ikebana {

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
        return average.around_evaluation(core().parameters,
                                         [&]() -> decltype(auto) { return with_full_weights(f); });
      });
    }
  }

 private:
  auto& core() { return static_cast<Self&>(*this).core(); }
};

}  // namespace ikebana
