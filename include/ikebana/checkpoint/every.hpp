#pragma once
// Checkpoint<Every<K>>: every K-th unit is recomputed.
#include <ikebana/checkpoint/frame/checkpoint_mechanism.hpp>

namespace ikebana {

/// Every K-th unit, starting with the first, keeps only its inputs and is recomputed in backward;
/// the others keep their activations. Units count in the order in which the model registers them.
/// Between Checkpoint<Off> and Checkpoint<Full> in memory and in time; changes no bit. `Every<>`
/// takes the number as a value.
template <std::int64_t K>
struct Checkpoint<Every<K>> {};
/// Checkpoint<Every> with the number as a value: Checkpoint<Every<>>{.every = 2}.
template <>
struct Checkpoint<Every<Dynamic>> {
  std::int64_t every = 0;  ///< K, 1 or more
};

template <std::int64_t K>
struct Mechanism<Checkpoint<Every<K>>> : detail::CheckpointMechanism {
  using carries_out = Checkpoint<Every<K>>;
  Checkpoint<Every<K>> values;
  explicit Mechanism(Checkpoint<Every<K>> v) : values(v) { every(); }

  std::size_t every() const {
    if constexpr (K != Dynamic) {
      return static_cast<std::size_t>(K);
    } else {
      if (values.every >= 1) return static_cast<std::size_t>(values.every);
      throw BadValue("Checkpoint<Every<>>: every is " + std::to_string(values.every) +
                     "; it must be 1 or more, e.g. Checkpoint<Every<>>{.every = 2}.");
    }
  }
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    std::size_t position = unit.is_root() ? 0 : unit.index - 1;
    if (position % every() != 0) return next(std::forward<Args>(args)...);
    return checkpoint_unit(detail::full_frame(device_), unit, next, std::forward<Args>(args)...);
  }
  std::string describe() const { return "every=" + std::to_string(every()); }
};

}  // namespace ikebana
