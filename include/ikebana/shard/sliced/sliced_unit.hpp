#pragma once
// A unit whose parameters are cut: its gathered parameters, and its gradients until they are
// summed.
#include <ikebana/shard/sliced/unit_gather.hpp>
#include <ikebana/shard/sliced/unit_sum.hpp>
#include <optional>
#include <vector>

namespace ikebana::detail {

/// The state of a unit whose parameters are cut, on this rank.
struct SlicedUnit {
  std::optional<UnitLayout> layout;
  std::vector<std::int64_t> masters;  // index of each parameter's master; -1: frozen
  Tensors whole;                      // memory for gathered parameters that are kept
  bool is_complete = false;           // `whole` has the present values
  std::optional<UnitGather> gather;
  std::int64_t uses = 0, calls = 0;  // in this microbatch: forwards, and arrivals of gradients
  bool is_reduced = false;           // in this microbatch
  Tensors of_microbatch;             // sums of the uses of this microbatch so far
  Tensors local;                     // gradients that are not reduced yet
  DTypes dtypes;                     // the dtypes of sums of gradients
  SliceTransfer sent;                // sends the sums that masters have as gradients

  /// Adds the gradients of one use. The uses of one microbatch are added up before the sum is added
  /// to that of earlier microbatches, as autograd does.
  void add(const Tensors& gradients);
  /// Ends the microbatch, also if a use has had no backward.
  void end_microbatch();
  bool is_trained() const { return !masters.empty(); }
  void forget() noexcept;

 private:
  static void add(Tensors& to, const Tensors& gradients);
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/sliced_unit.ipp>
#endif
