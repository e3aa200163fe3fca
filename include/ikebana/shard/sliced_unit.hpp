#pragma once
// A unit of a model whose parameters are cut among ranks.
#include <ikebana/shard/unit_gather.hpp>
#include <ikebana/shard/unit_sum.hpp>

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
  Tensors local;                     // gradients that are not reduced yet
  DTypes dtypes;                     // in which they are
  SliceTransfer sent;                // sums that copies hand on, and masters have

  bool is_trained() const { return !masters.empty(); }
  void forget() noexcept {
    gather.reset();
    local.clear();
    sent = {};
  }
};

}  // namespace ikebana::detail
