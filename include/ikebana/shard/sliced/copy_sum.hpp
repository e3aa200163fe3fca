#pragma once
// Slices of a unit's gradients, summed over the copies of a model, of which each has the sums.
#include <ikebana/shard/sliced/unit_gather.hpp>
#include <ikebana/shard/sliced/unit_reduction.hpp>

namespace ikebana::detail {

/// In the order of ranks: round the copies goes first a partial sum, to which each adds its own
/// gradients, and then the sum. Each copy sends no more than two slices. Messages follow each
/// other, so a copy hands on what it has while backward computes.
class OrderedCopySum {
 public:
  /// Slices of `cut` that belong to `rank`. Among hosts memory for what is received is there, and
  /// awaits it, from the beginning on; devices receive in the order of calls.
  OrderedCopySum(Subgroup& copies, int tag, const UnitCut& cut, std::int64_t rank,
                 const DTypes& dtypes, c10::Device device);
  /// What copies before this one have; in the first one nothing. Waits.
  Tensors before(Subgroup& copies);
  /// Hands on the sum of this copy and those before. In the last one that is the sum of all.
  void begin(Subgroup& copies, Tensors sums);
  void advance(Subgroup&) {}
  /// Waits for the sum, and hands it on.
  Tensors finish(Subgroup& copies);
  /// What is still being sent, of which the sums are a part.
  SliceTransfer take_sent() { return std::move(sent_); }

 private:
  static bool is_last(const Subgroup& copies) { return copies.rank() + 1 == copies.size(); }
  SliceMessage message() const { return {cut_, rank_, dtypes_, device_}; }
  /// Begins to send to the next copy, or to receive from the one before.
  SliceTransfer pass(Subgroup& copies, const SliceMessage& message, bool sends) const;
  Tensors slices(const SliceMessage& message) const;

  int tag_;
  const UnitCut& cut_;
  std::int64_t rank_;
  const DTypes& dtypes_;
  c10::Device device_;
  std::optional<SliceMessage> partial_, sum_;
  Tensors result_;
  SliceTransfer arriving_partial_, arriving_sum_, sent_;
};

/// Each copy's sum, and then those of the copies. A copy adds up its rows of the slices, and all
/// gather them, so that each of C copies sends 2 (C - 1) / C slices.
class UnorderedCopySum {
 public:
  /// `cut`: of the slices, among copies.
  UnorderedCopySum(std::size_t unit, const UnitCut& cut, const DTypes& dtypes, c10::Device device)
      : unit_(unit), cut_(cut), dtypes_(dtypes), device_(device) {}
  Tensors before(Subgroup&) { return {}; }
  void begin(Subgroup& copies, Tensors sums);
  /// Where no copy has a gradient, zeros are gathered.
  void advance(Subgroup& copies);
  Tensors finish(Subgroup& copies);
  SliceTransfer take_sent() { return {}; }

 private:
  std::size_t unit_;
  const UnitCut& cut_;
  const DTypes& dtypes_;
  c10::Device device_;
  std::optional<UnitReduction> reduction_;
  std::optional<UnitGather> gather_;
  std::vector<bool> is_there_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/copy_sum.ipp>
#endif
