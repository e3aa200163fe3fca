#pragma once
// Checkpoint<Only<Units...>>: chosen units are recomputed.
#include <ikebana/checkpoint/frame/checkpoint_mechanism.hpp>
#include <ikebana/detail/nearest_names.hpp>
#include <ikebana/model/rule.hpp>

namespace ikebana {

/// Units of these types keep only their inputs and are recomputed in backward; the others keep
/// their activations. Changes no bit. `Only<>` takes a rule as a value, which is called once for
/// each unit when the trainer is made, or the names of units: `.match = "blocks.*"`, or
/// `.match = [](const Unit& unit) { return unit.name != "blocks.0"; }`.
template <class... Units>
struct Checkpoint<Only<Units...>> {};
/// Checkpoint<Only> with a rule as a value. Throws BadModel if it chooses no unit.
template <>
struct Checkpoint<Only<>> {
  Rule<Unit> match;  ///< chooses the units that are recomputed: a pattern of names, or a function
};

template <class... Units>
struct Mechanism<Checkpoint<Only<Units...>>> : detail::CheckpointMechanism {
  using carries_out = Checkpoint<Only<Units...>>;
  Checkpoint<Only<Units...>> values;
  explicit Mechanism(Checkpoint<Only<Units...>> v) : values(std::move(v)) {}

  void attach(c10::Device device, const UnitTable& table) {
    CheckpointMechanism::attach(device, table);
    if constexpr (sizeof...(Units) == 0) rule_ = values.match;
    chosen_.clear();
    for (const Unit& unit : table.units()) chosen_.push_back(is_chosen(unit));
    if (std::find(chosen_.begin(), chosen_.end(), true) == chosen_.end())
      throw BadModel("Checkpoint<Only>: the types or the rule choose none of the model's units" +
                     names_of(table) +
                     ", so nothing would be checkpointed. Register such a unit, correct the rule, "
                     "or leave Checkpoint out.");
  }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    if constexpr (sizeof...(Units) == 0)
      detail::check_unchanged(values.match.is(rule_), "Checkpoint<Only<>>: match");
  }
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    if (!chosen_[unit.index]) return next(std::forward<Args>(args)...);
    return checkpoint_unit(detail::full_frame(device_), unit, next, std::forward<Args>(args)...);
  }
  std::string describe() const {
    return std::to_string(std::count(chosen_.begin(), chosen_.end(), true)) + " of the units";
  }

 private:
  std::string names_of(const UnitTable& table) const {
    std::vector<std::string> names;
    for (const Unit& unit : table.units())
      if (!unit.is_root()) names.push_back(unit.name);
    if constexpr (sizeof...(Units) > 0) return detail::nearest_names({}, std::move(names));
    else return detail::nearest_names(values.match.patterns(), std::move(names));
  }
  bool is_chosen(const Unit& unit) const {
    if constexpr (sizeof...(Units) > 0) {
      return (dynamic_cast<detail::impl_of_t<Units>*>(unit.module.get()) || ...);
    } else {
      if (!values.match)
        throw BadValue(
            "Checkpoint<Only<>>: match is empty. Set it to names of units, \"blocks.*\", or to a "
            "rule (const Unit&) -> bool.");
      return values.match(unit);
    }
  }

  Rule<Unit> rule_;  // the rule when the trainer was made
  std::vector<bool> chosen_;
};

}  // namespace ikebana
