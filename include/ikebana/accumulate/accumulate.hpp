#pragma once
// Defines Accumulate<N>: gradient accumulation.
#include <ikebana/hooks.hpp>

namespace ikebana {

/// Makes one update from a batch that is cut into N microbatches along its batch dimension, so that
/// only the activations of one microbatch are in memory. Cost: N smaller passes. The update does
/// not change, since the sum of all losses is divided by the total count; batch norm and dropout
/// see smaller batches. Tensors, Raggeds, and lists with as many values as the batch has rows are
/// cut; a list of another length, a text or any other value is passed whole to every microbatch.
/// `Accumulate<>` takes N as a value, which must be 1 or more.
template <auto N>
struct Accumulate {};
/// Accumulate with the number of microbatches as a value.
template <>
struct Accumulate<Dynamic> {
  std::int64_t microbatches = 0;  ///< the number for each batch, 1 or more
};
Accumulate(std::int64_t) -> Accumulate<Dynamic>;  // Accumulate{8}

template <std::integral auto N>
struct Mechanism<Accumulate<N>> : AccumulateHooks {
  using carries_out = Accumulate<N>;
  Accumulate<N> values;
  explicit Mechanism(Accumulate<N> v) : values(v) { microbatches(); }

  std::int64_t microbatches() const {
    if constexpr (N != Dynamic) {
      return N;
    } else {
      if (values.microbatches >= 1) return values.microbatches;
      throw BadValue("Accumulate<>: microbatches is " + std::to_string(values.microbatches) +
                     "; it must be 1 or more, e.g. Accumulate<>{.microbatches = 8}.");
    }
  }
  /// Batches are checked and viewed, but not copied.
  template <class Batch>
  auto split(const Batch& batch) {
    if constexpr (N == 1) return (rows(batch), AccumulateHooks::split(batch));
    else return ikebana::split(batch, microbatches());
  }
  std::string describe() const { return "microbatches=" + std::to_string(microbatches()); }
};

}  // namespace ikebana
