#pragma once
// The gradients of a unit, summed over a group of ranks, of which each receives its slices.
#include <ikebana/shard/group/subgroup.hpp>
#include <ikebana/shard/sliced/slice_message.hpp>

namespace ikebana::detail {

/// A sum of some tensors, in the order in which they are added. Only tensors of its own, whose
/// memory no other tensor has, are written.
class RunningSum {
 public:
  void add(const at::Tensor& one, bool is_own);
  /// Undefined where nothing was added.
  at::Tensor result() const { return sum_.defined() && !is_own_ ? sum_.clone() : sum_; }

 private:
  at::Tensor sum_;
  bool is_own_ = false;
};

/// A unit's gradients on their way: each rank sends the others their rows. The sum is taken in the
/// order of ranks, over those that have a gradient, and is undefined where no rank has one. On an
/// interconnect of N ranks (N - 1) / N of the gradients are sent and received.
class UnitReduction {
 public:
  /// `gradients`: one for each parameter, undefined where this rank has none. They are sent and
  /// summed in `dtypes`, which outlive this, as `cut` does. Among devices `tag + 1` is used, too.
  UnitReduction(Subgroup& group, int tag, const UnitCut& cut, Tensors gradients,
                const DTypes& dtypes, c10::Device device);
  /// Waits, and adds up; after `before`, where there is one. Throws RankFailed.
  Tensors finish(Subgroup& group, const Tensors& before = {});

 private:
  /// A rank's rows of the gradients of this one.
  Tensors slices(std::int64_t rank) const;
  at::Tensor sum(std::size_t i, const at::Tensor& own, const at::Tensor& before) const;

  const UnitCut& cut_;
  Tensors gradients_;
  std::int64_t rank_;
  std::vector<std::optional<SliceMessage>> received_;  // of each other rank
  SliceTransfer transfer_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/unit_reduction.ipp>
#endif
