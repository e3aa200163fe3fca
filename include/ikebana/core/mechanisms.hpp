#pragma once
// Defines all mechanisms of a recipe: a member named after each axis, built and asked in wrapping
// order.
#include <ikebana/core/many.hpp>

namespace ikebana {

namespace detail {

/// The mechanism of one axis, as a member that has the axis's name. The mechanism of a user's own
/// axis has no such member.
template <class Axis, class PolicyT>
struct MechanismOf {
  using Policy = PolicyT;
  Mechanism<Policy> own;
  Mechanism<Policy>& on(std::type_identity<Axis>) { return own; }
};

#define IKEBANA_MECHANISM_OF(axis_name)                                              \
  template <class PolicyT>                                                           \
  struct MechanismOf<axis::axis_name, PolicyT> {                                     \
    using Policy = PolicyT;                                                          \
    Mechanism<Policy> axis_name;                                                     \
    Mechanism<Policy>& on(std::type_identity<axis::axis_name>) { return axis_name; } \
  }
IKEBANA_MECHANISM_OF(accumulate);
IKEBANA_MECHANISM_OF(average);
IKEBANA_MECHANISM_OF(capture);
IKEBANA_MECHANISM_OF(checkpoint);
IKEBANA_MECHANISM_OF(clip);
IKEBANA_MECHANISM_OF(device);
IKEBANA_MECHANISM_OF(freeze);
IKEBANA_MECHANISM_OF(layout);
IKEBANA_MECHANISM_OF(objective);
IKEBANA_MECHANISM_OF(observe);
IKEBANA_MECHANISM_OF(offload);
IKEBANA_MECHANISM_OF(optimizer);
IKEBANA_MECHANISM_OF(precision);
IKEBANA_MECHANISM_OF(schedule);
IKEBANA_MECHANISM_OF(shard);
#undef IKEBANA_MECHANISM_OF

/// The members of all axes. Its name is long, so it has no other functions.
template <class... Members>
struct MechanismMembers : Members... {
  template <class Values>
  explicit MechanismMembers(Values& values)
      : Members{make_mechanism<typename Members::Policy>(values)}... {}
  /// The mechanism of an axis: `m.on(std::type_identity<axis::shard>())` is `m.shard`.
  using Members::on...;
};
template <class Recipe, class Order = typename order_in<Recipe>::type>
struct mechanism_members;
template <class Recipe, class... Axes>
struct mechanism_members<Recipe, AxisList<Axes...>> {
  using type = MechanismMembers<MechanismOf<Axes, typename policy_in<Axes, Recipe>::type>...>;
};

/// The policies of some axes in a recipe, in the order of the axes; `Many` are listed one by one.
template <class... Policies>
struct PolicyList {};
template <class List, class Policy>
struct with_policy;
template <class... Policies, class Policy>
struct with_policy<PolicyList<Policies...>, Policy> {
  using type = PolicyList<Policies..., Policy>;
};
template <class... Policies, class... Others>
struct with_policy<PolicyList<Policies...>, Many<Others...>> {
  using type = PolicyList<Policies..., Others...>;
};
template <class Recipe, class Axes, class List = PolicyList<>>
struct policies_of {
  using type = List;
};
template <class Recipe, class Axis, class... Axes, class List>
struct policies_of<Recipe, AxisList<Axis, Axes...>, List>
    : policies_of<Recipe, AxisList<Axes...>,
                  typename with_policy<List, typename policy_in<Axis, Recipe>::type>::type> {};

}  // namespace detail

/// `m.shard`, `m.precision` and so on. Each is built from its policy's value: the one that was
/// given, or the default.
template <class Recipe>
struct Mechanisms : detail::mechanism_members<Recipe>::type {
  using Members = typename detail::mechanism_members<Recipe>::type;
  using Order = typename detail::order_in<Recipe>::type;
  using Members::on;

  template <class Values>
  explicit Mechanisms(Values values) : Members(values) {}

  /// Returns the mechanism of a policy of the recipe.
  template <class Policy>
  Mechanism<Policy>& of() {
    auto& mechanism = on(std::type_identity<axis_of_t<Policy>>());
    if constexpr (std::is_same_v<decltype(mechanism), Mechanism<Policy>&>) return mechanism;
    else return mechanism.template get<Policy>();
  }
  /// Calls `f(mechanism)` for each that is not of a null choice, outermost first.
  template <class F>
  void each(F&& f) {
    each(Order(), f);
  }
  /// Calls `f` for the mechanisms of some axes, in the order of the list.
  template <class... Some, class F>
  void each(AxisList<Some...>, F&& f) {
    each_listed(active<AxisList<Some...>>(), f);
  }
  /// Calls `f(mechanism)` for each, null choices included.
  template <class F>
  void all(F&& f) {
    each_listed(Order(), f);
  }

 private:
  template <class List>
  void each_listed(List, auto&& f) {
    each_policy(typename detail::policies_of<Recipe, List>::type(), f);
  }
  template <class... Policies>
  void each_policy(detail::PolicyList<Policies...>, auto& f) {
    (f(of<Policies>()), ...);
  }
  template <class Axis, class Policy>
  static Mechanism<Policy> declared(detail::MechanismOf<Axis, Policy>&);
  template <class Axis>
  using type_on = decltype(declared<Axis>(std::declval<Mechanisms&>()));
  template <class... Some>
  static constexpr bool hears_backward(AxisList<Some...>) {
    return (type_on<Some>::listens_to_backward || ...);
  }
  template <class... Some>
  static constexpr bool gathers(AxisList<Some...>) {
    return (type_on<Some>::moves_parameters || ...);
  }
  template <class Axis, class... Some>
  static constexpr bool gathers_alone(AxisList<Some...>) {
    return ((std::is_same_v<Some, Axis> || !type_on<Some>::moves_parameters) && ...);
  }
  static constexpr bool shards_or_offloads = gathers(AxisList<axis::shard, axis::offload>());

 public:
  /// True if a mechanism listens to backward. Only then are autograd hooks registered.
  static constexpr bool listens_to_backward = hears_backward(BackwardListeners());
  /// True if a unit computes with other tensors than the master weights.
  static constexpr bool moves_parameters = gathers(GatherOrder());
  /// True if units compute with exactly what this axis gathers, because no other axis gathers.
  template <class Axis>
  static constexpr bool only_gathers = gathers_alone<Axis>(GatherOrder());
  /// True if gathered parameters stay between steps and are refreshed after each update. If Shard
  /// or Offload gathers, it decides this. Otherwise Precision does.
  static constexpr bool keeps_gathered =
      shards_or_offloads
          ? type_on<axis::shard>::keeps_gathered || type_on<axis::offload>::keeps_gathered
          : type_on<axis::precision>::keeps_gathered;
  /// Returns the index of the last of these axes that can begin to gather ahead, or -1.
  template <class... Some>
  static constexpr int last_ahead(AxisList<Some...>) {
    int stage = 0, last = -1;
    ((type_on<Some>::gathers_ahead ? last = stage : 0, ++stage), ...);
    return last;
  }
  /// True for a recipe that runs on one rank.
  static constexpr bool one_rank =
      is_one_rank<decltype(std::declval<type_on<axis::shard>&>().ranks())>;
  /// True if parameters are cut among ranks, so that gathering them is a call of all ranks.
  static constexpr bool gathers_from_ranks = type_on<axis::shard>::moves_parameters && !one_rank;
  /// True if a policy works unit by unit.
  static constexpr bool per_unit =
      type_on<axis::observe>::per_unit || type_on<axis::shard>::per_unit ||
      type_on<axis::offload>::per_unit || type_on<axis::checkpoint>::per_unit ||
      type_on<axis::capture>::per_unit || type_on<axis::precision>::per_unit;

 private:
  template <class Axis>
  static consteval bool has_effect() {
    if constexpr (std::is_same_v<Axis, wrapper::frames>) return has_effect<axis::checkpoint>();
    else if constexpr (std::is_same_v<Axis, wrapper::gather>)
      return moves_parameters || listens_to_backward;
    else return !detail::is_null_mechanism<type_on<Axis>>;
  }
  template <class Axis>
  struct is_active : std::bool_constant<has_effect<Axis>()> {};

 public:
  /// A list without the axes whose policy is a null choice, and without wrappers that do nothing.
  template <class List>
  using active = detail::filtered_t<List, is_active>;
};

namespace detail {

template <class Policy>
struct PartOf {
  using type = WholeStep;
};
template <class What>
  requires(!std::is_same_v<What, Off>)
struct PartOf<Capture<What>> {
  using type = What;
};
/// The part of a step that a recipe captures; the whole step, if none.
template <class Recipe>
using captured_part = typename PartOf<
    std::decay_t<decltype(std::declval<Mechanisms<Recipe>&>().capture.values)>>::type;

}  // namespace detail

}  // namespace ikebana
