#pragma once
// Shards optimizer state and gradients.
#include <ikebana/shard/sliced/sliced.hpp>

namespace ikebana {

/// Each rank has whole parameters, and the gradients and optimizer state of its rows of each
/// parameter. It sends as many bytes as DDP, and with `reduce_each_microbatch` the bytes of the
/// gradients in each microbatch. Source: ZeRO stage 2 (Rajbhandari et al. 2020, arXiv 1910.02054).
template <>
struct Shard<ZeRO2> {
  std::optional<ProcessGroup> process_group = {};   ///< if left out, the environment's
  std::optional<at::ScalarType> param_dtype = {};   ///< the dtype in which Precision gathers; a
                                                    ///< different one is an error
  std::optional<at::ScalarType> reduce_dtype = {};  ///< the dtype of sums; if it is left out,
                                                    ///< Precision chooses it
  bool allow_unused_units = false;                  ///< a step may leave a unit out, on all ranks
  bool reduce_each_microbatch = true;  ///< false: whole gradients are kept until the last
                                       ///< microbatch
};

template <>
struct Mechanism<Shard<ZeRO2>> : detail::Sliced<Shard<ZeRO2>> {
  using carries_out = Shard<ZeRO2>;
  using detail::Sliced<Shard<ZeRO2>>::Sliced;

  static constexpr bool keeps_gathered = true;

  std::string describe() const { return detail::describe_slices(this->values); }
};

}  // namespace ikebana
