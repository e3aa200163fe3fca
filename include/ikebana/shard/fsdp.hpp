#pragma once
// Sharded parameters, gradients and optimizer state.
#include <ikebana/shard/sliced/fully_sharded.hpp>

namespace ikebana {

/// Each rank has its rows of each parameter; a unit's whole parameters are there while it computes.
/// Gathered in forward and in backward, so that half as many bytes again are sent as under DDP.
/// Fields, names and defaults are those of PyTorch's fully_shard, but for prefetching in forward,
/// which follows the order of units in the microbatch before. Of a model that the trainer is given
/// as a maker no rank holds more than a unit and what its values depend on (Trainer). Source: Zhao
/// et al. 2023, arXiv 2304.11277.
template <>
struct Shard<FSDP> {
  static constexpr bool needs_units = true;         ///< the model must declare units
  std::optional<ProcessGroup> process_group = {};   ///< left out: that of the environment
  std::optional<at::ScalarType> param_dtype = {};   ///< in which Precision gathers; else an error
  std::optional<at::ScalarType> reduce_dtype = {};  ///< in which gradients are summed; by Precision
  bool allow_unused_units = false;                  ///< steps may leave units out, on all ranks
  bool reduce_each_microbatch = true;  ///< false: whole gradients are kept until the last one
  /// Release a unit after its forward; no value: all but the last, whose backward comes first.
  std::optional<bool> reshard_after_forward = {};
  bool forward_prefetch = true;   ///< gather the next unit ahead in forward
  bool backward_prefetch = true;  ///< and in backward
};

template <>
struct Mechanism<Shard<FSDP>> : detail::FullySharded<Shard<FSDP>> {
  using carries_out = Shard<FSDP>;
  using detail::FullySharded<Shard<FSDP>>::FullySharded;
};

}  // namespace ikebana
