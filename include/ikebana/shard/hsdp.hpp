#pragma once
// Shards parameters, gradients and optimizer state, in several copies of the model.
#include <ikebana/shard/sliced/fully_sharded.hpp>

namespace ikebana {

/// Hybrid sharding: N consecutive ranks have one copy of the model, in which each rank has its rows
/// of each parameter as under FSDP; other groups of N have further copies. Units are gathered
/// within a group, so that only gradients go between hosts if each group is on one host: a unit's
/// gradients are summed in the group, and then each rank's slices over the copies. On average each
/// of C copies sends 2 (C - 1) / C of its slices. Memory: as FSDP on N ranks, also while a maker
/// makes the model. Fields and names are FSDP's; `ordered` is DDP's. With N = 1 parameters and
/// gradients are whole, and are summed after a step's last microbatch, whatever
/// `reduce_each_microbatch` says: write Shard<DDP> instead. Source: PyTorch's fully_shard on a mesh
/// of two dimensions; HYBRID_SHARD in Zhao et al. 2023, arXiv 2304.11277.
template <std::int64_t N>
struct Shard<HSDP<N>> {
  static constexpr bool needs_units = true;          ///< the model must declare units
  static constexpr std::int64_t ranks_per_copy = N;  ///< the number of ranks that share a copy
  std::optional<ProcessGroup> process_group = {};    ///< if left out, the environment's
  std::optional<at::ScalarType> param_dtype = {};    ///< the dtype in which Precision gathers; a
                                                     ///< different one is an error
  std::optional<at::ScalarType> reduce_dtype = {};   ///< the dtype of sums; if it is left out,
                                                     ///< Precision chooses it
  bool allow_unused_units = false;                   ///< a step may leave a unit out, on all ranks
  bool reduce_each_microbatch = true;  ///< false: whole gradients are kept until the last
                                       ///< microbatch
  /// Release a unit after its forward. If left out: all but the last, whose backward comes first.
  std::optional<bool> reshard_after_forward = {};
  bool forward_prefetch = true;   ///< gather the next unit ahead in forward
  bool backward_prefetch = true;  ///< gather the next unit ahead in backward
  /// True: gradients are added up in the order of ranks, and ranks give the bits of one rank with
  /// as many microbatches. False: each group adds up its own, and then the groups add up their
  /// sums. If left out: true on a CPU.
  std::optional<bool> ordered = {};
};

/// Throws BadValue if the number of ranks is no multiple of N, and in a step if `ordered` has
/// changed.
template <std::int64_t N>
struct Mechanism<Shard<HSDP<N>>> : detail::FullySharded<Shard<HSDP<N>>> {
  using Policy = Shard<HSDP<N>>;
  using carries_out = Policy;
  explicit Mechanism(Policy v) : detail::FullySharded<Policy>(checked(std::move(v))) {}

  void open_step() {
    detail::check_unchanged(this->values.ordered == ordered_, "Shard<HSDP>: ordered");
    detail::FullySharded<Policy>::open_step();
  }

 private:
  static Policy checked(Policy policy) {
    const std::int64_t ranks =
        (policy.process_group ? *policy.process_group : ProcessGroup::of_environment()).size();
    if (ranks % N != 0)
      throw BadValue(detail::type_name<Policy>() + ": " + std::to_string(ranks) +
                     " ranks train this model, which is no multiple of the " + std::to_string(N) +
                     " that share a copy. Start a multiple of " + std::to_string(N) +
                     " ranks, or write Shard<HSDP<N>> with an N that divides their number.");
    return policy;
  }

  const std::optional<bool> ordered_ = this->values.ordered;  // the value in use
};

}  // namespace ikebana
