#pragma once
#include <ikebana/checkpoint/recompute.hpp>

namespace ikebana {

/// Units of these types keep their inputs only; the others keep all. Changes no bit. `Only<>` takes
/// a rule as a value, asked once for each unit when the trainer is made:
/// `.match = [](const Unit& unit) { return unit.name != "blocks.0"; }`.
template <class... Units>
struct Checkpoint<Only<Units...>> {};
template <>
struct Checkpoint<Only<>> {
  std::function<bool(const Unit&)> match;
};

template <class... Units>
struct Mechanism<Checkpoint<Only<Units...>>> : detail::Recomputing {
  Checkpoint<Only<Units...>> values;
  explicit Mechanism(Checkpoint<Only<Units...>> v) : values(std::move(v)) {}

  void attach(c10::Device device, const UnitTable& table) {
    Recomputing::attach(device, table);
    chosen_.clear();
    for (const Unit& unit : table.units()) chosen_.push_back(is_chosen(unit));
    if (std::find(chosen_.begin(), chosen_.end(), true) == chosen_.end())
      throw BadModel(
          "Checkpoint<Only>: the model has no such unit: nothing would be checkpointed. Register "
          "one, mend the rule, or leave Checkpoint out.");
  }
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    if (!chosen_[unit.index]) return next(std::forward<Args>(args)...);
    return in_own_frame(nullptr, unit, next, std::forward<Args>(args)...);
  }
  std::string describe() const {
    return std::to_string(std::count(chosen_.begin(), chosen_.end(), true)) + " of the units";
  }

 private:
  bool is_chosen(const Unit& unit) const {
    if constexpr (sizeof...(Units) > 0) {
      return (dynamic_cast<detail::impl_of_t<Units>*>(unit.module.get()) || ...);
    } else {
      if (!values.match)
        throw BadValue("Checkpoint<Only<>>: match is empty. Give a rule (const Unit&) -> bool.");
      return values.match(unit);
    }
  }

  std::vector<bool> chosen_;
};

}  // namespace ikebana
