#pragma once
#include <ikebana/checkpoint/recompute.hpp>

namespace ikebana {

/// Every K-th unit, the first one included, keeps its inputs only; the others keep all. Units count
/// in the order in which the model registers them. Between Checkpoint<Off> and Checkpoint<Full>, in
/// memory as in time; changes no bit. `Every<>` takes the number as a value.
template <std::int64_t K>
struct Checkpoint<Every<K>> {};
template <>
struct Checkpoint<Every<Dynamic>> {
  std::int64_t every = 0;
};

template <std::int64_t K>
struct Mechanism<Checkpoint<Every<K>>> : detail::Recomputing {
  Checkpoint<Every<K>> values;
  explicit Mechanism(Checkpoint<Every<K>> v) : values(v) { every(); }

  std::size_t every() const {
    if constexpr (K != Dynamic) {
      return static_cast<std::size_t>(K);
    } else {
      if (values.every >= 1) return static_cast<std::size_t>(values.every);
      throw BadValue("Checkpoint<Every<>>: every is " + std::to_string(values.every) +
                     "; give at least one, e.g. Checkpoint<Every<>>{.every = 2}.");
    }
  }
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    std::size_t place = unit.is_root() ? 0 : unit.index - 1;
    if (place % every() != 0) return next(std::forward<Args>(args)...);
    return in_own_frame(nullptr, unit, next, std::forward<Args>(args)...);
  }
  std::string describe() const { return "every=" + std::to_string(every()); }
};

}  // namespace ikebana
