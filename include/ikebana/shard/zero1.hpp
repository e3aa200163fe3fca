#pragma once
// Shards optimizer state.
#include <ikebana/shard/sliced/sliced.hpp>

namespace ikebana {

/// Each rank has whole parameters and gradients, and the optimizer state of its rows of each
/// parameter. It sends as many bytes as DDP. Source: ZeRO stage 1 (Rajbhandari et al. 2020, arXiv
/// 1910.02054).
template <>
struct Shard<ZeRO1> {
  std::optional<ProcessGroup> process_group = {};   ///< if left out, the environment's
  std::optional<at::ScalarType> param_dtype = {};   ///< the dtype in which Precision gathers; a
                                                    ///< different one is an error
  std::optional<at::ScalarType> reduce_dtype = {};  ///< the dtype of sums; if it is left out,
                                                    ///< Precision chooses it
  bool allow_unused_units = false;                  ///< a step may leave a unit out, on all ranks
};

template <>
struct Mechanism<Shard<ZeRO1>> : detail::Sliced<Shard<ZeRO1>> {
  using carries_out = Shard<ZeRO1>;
  using detail::Sliced<Shard<ZeRO1>>::Sliced;

  static constexpr bool keeps_gathered = true;

  std::string describe() const { return detail::describe_slices(this->values); }
};

}  // namespace ikebana
