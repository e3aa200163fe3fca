#pragma once
// Sharded parameters, gradients and optimizer state. sliced/unit_gather.hpp gathers the parameters
// of a unit, sliced/unit_reduction.hpp sums its gradients.
#include <ikebana/shard/sliced/fully_sharded.hpp>

namespace ikebana {

/// Each rank has its rows of each parameter; a unit's whole parameters are there while it computes.
/// They are gathered in forward and in backward, so that 1.5 times as many bytes are sent as under
/// DDP. Fields, names and defaults are PyTorch's fully_shard's, except for prefetching in forward,
/// which follows the order of units in the previous microbatch. If the trainer is given a maker of
/// the model, no rank holds more than a unit and what its values depend on (Trainer). Source: Zhao
/// et al. 2023, arXiv 2304.11277.
template <>
struct Shard<FSDP> {
  static constexpr bool needs_units = true;         ///< the model must declare units
  std::optional<ProcessGroup> process_group = {};   ///< if left out, the environment's
  std::optional<at::ScalarType> param_dtype = {};   ///< the dtype in which Precision gathers; a
                                                    ///< different one is an error
  std::optional<at::ScalarType> reduce_dtype = {};  ///< the dtype of sums; if it is left out,
                                                    ///< Precision chooses it
  bool allow_unused_units = false;                  ///< a step may leave a unit out, on all ranks
  bool reduce_each_microbatch = true;  ///< false: whole gradients are kept until the last
                                       ///< microbatch
  /// Release a unit after its forward. If left out: all but the last, whose backward comes first.
  std::optional<bool> reshard_after_forward = {};
  bool forward_prefetch = true;   ///< gather the next unit ahead in forward
  bool backward_prefetch = true;  ///< gather the next unit ahead in backward
};

template <>
struct Mechanism<Shard<FSDP>> : detail::FullySharded<Shard<FSDP>> {
  using carries_out = Shard<FSDP>;
  using detail::FullySharded<Shard<FSDP>>::FullySharded;
};

}  // namespace ikebana
