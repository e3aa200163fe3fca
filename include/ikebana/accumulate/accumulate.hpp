#pragma once
#include <ikebana/hooks.hpp>

namespace ikebana {

/// One update from a batch cut into N microbatches: activations of one microbatch alive at a time.
/// Costs N smaller passes; the update is the same, since sums are divided by the total count.
/// Batch norm and dropout see smaller batches. `Accumulate<>` takes the number as a value.
template <std::int64_t N>
struct Accumulate {};
template <>
struct Accumulate<Dynamic> {
  std::int64_t microbatches = 0;
};

template <std::int64_t N>
struct Mechanism<Accumulate<N>> : Hooks {
  Accumulate<N> values;
  explicit Mechanism(Accumulate<N> v) : values(v) { microbatches(); }

  std::int64_t microbatches() const {
    if constexpr (N != Dynamic) {
      return N;
    } else {
      if (values.microbatches >= 1) return values.microbatches;
      throw BadValue("Accumulate<>: microbatches is " + std::to_string(values.microbatches) +
                     "; give at least one, e.g. Accumulate<>{.microbatches = 8}.");
    }
  }
  /// Whole batches are only looked at, never copied.
  template <class Batch>
  auto split(const Batch& batch) {
    if constexpr (N == 1) return (rows(batch), Hooks::split(batch));
    else return ikebana::split(batch, microbatches());
  }
  std::string describe() const { return "microbatches=" + std::to_string(microbatches()); }
};

}  // namespace ikebana
