#pragma once
// A unit of a model whose parameters are cut among ranks.
#include <ikebana/shard/sliced/unit_gather.hpp>
#include <ikebana/shard/sliced/unit_sum.hpp>

namespace ikebana::detail {

/// What this rank knows of a unit whose parameters are cut, and what is under way.
struct SlicedUnit {
  std::optional<UnitLayout> layout;
  std::vector<std::int64_t> masters;  // index of each parameter's master; -1: frozen
  Tensors whole;                      // memory for gathered parameters that are kept
  bool is_complete = false;           // `whole` has the present values
  std::optional<UnitGather> gather;
  std::int64_t uses = 0, calls = 0;  // in this microbatch: forwards, and gradients that came
  bool is_reduced = false;           // in this microbatch
  Tensors of_microbatch;             // gradients of some uses in this microbatch
  Tensors local;                     // gradients that are not reduced yet
  DTypes dtypes;                     // in which they are
  SliceTransfer sent;                // sums that copies hand on, and masters have

  /// The gradients of a use. Those of one microbatch are added up before the sum is added to that
  /// of earlier ones, as autograd does.
  void add(const Tensors& gradients);
  /// Also where a use has had no backward.
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
