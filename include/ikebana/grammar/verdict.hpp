#pragma once
// In which order a recipe is judged: the next stage is looked at only when the former passed, so that
// the first cause hides its consequences.
#include <ikebana/grammar/refuse.hpp>

namespace ikebana::refuse {

template <class Refusal>
using is = std::type_identity<Refusal>;
template <class Refusal>
inline constexpr bool passed = std::is_same_v<Refusal, Nothing>;

/// The first type of the pack that is a refusal, or `Nothing`.
template <class... Refusals>
struct first {
  using type = Nothing;
};
template <class Refusal, class... Rest>
struct first<Refusal, Rest...>
    : std::conditional_t<passed<Refusal>, first<Rest...>, is<Refusal>> {};

template <class Axis>
inline constexpr bool is_axis = Axis::many;
template <class Axis>
  requires requires { typename Axis::fallback; }
inline constexpr bool is_axis<Axis> = true;
template <class Axis>
concept known_axis = std::is_class_v<Axis> && requires { requires is_axis<Axis>; };

/// Stage 1: is every word a policy of a known axis?
template <class Word>
consteval auto word() {
  using Axis = axis_of_t<Word>;
  using Nearest = typename nearest<Word>::type;
  if constexpr (!std::is_void_v<Axis> && known_axis<Axis>) return is<Nothing>{};
  else if constexpr (!std::is_void_v<Axis>) return is<NotAnAxis<Word, Axis>>{};
  else if constexpr (!std::is_void_v<Nearest>) return is<MeantAnotherWord<Word, Nearest>>{};
  else return is<NotAPolicy<Word>>{};
}

/// Stage 3: why `Later` cannot stand in a recipe that has `Word`.
template <class Word, class Later>
using pair_t = std::conditional_t<
    std::is_same_v<Word, Later>, SameWordTwice<Word>,
    std::conditional_t<std::is_same_v<axis_of_t<Word>, axis_of_t<Later>> &&
                           !detail::takes_many<axis_of_t<Word>>,
                       TwoOnOneAxis<Word, Later>, Nothing>>;
template <class... Words>
struct clash {
  using type = Nothing;
};
template <class Word, class... Later>
struct clash<Word, Later...>
    : first<typename first<pair_t<Word, Later>...>::type, typename clash<Later...>::type> {};

/// Stage 4: can the model be trained so?
template <class Model, class... Words>
consteval auto model() {
  constexpr bool objective = (std::is_same_v<axis_of_t<Words>, axis::objective> || ...);
  using Units = typename first<std::conditional_t<
      needs_units<Words> && !detail::shows_units<Model>, NeedsUnits<Words, Model>, Nothing>...>::type;
  if constexpr (!objective && !detail::has_loss<Model>) return is<NoLoss<Model>>{};
  else return is<Units>{};
}

template <class Model, class... Words>
consteval auto judge() {
  using Word = typename first<typename decltype(word<Words>())::type...>::type;
  if constexpr (!std::is_void_v<axis_of_t<Model>>) return is<ModelMissing<Model>>{};
  else if constexpr (!passed<Word>) return is<Word>{};
  else {
    using Choice = typename first<typename choice<Words>::refusal...>::type;
    using Clash = typename clash<Words...>::type;
    if constexpr (!passed<Choice>) return is<Choice>{};
    else if constexpr (!passed<Clash>) return is<Clash>{};
    else return model<Model, Words...>();
  }
}

/// Why `Trainer<Model, Words...>` cannot be, as a type whose instantiation says it; `Nothing` if it can.
template <class Model, class... Words>
using verdict_t = typename decltype(judge<Model, Words...>())::type;

}  // namespace ikebana::refuse
