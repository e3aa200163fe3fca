#pragma once
// Sums a unit's gradients over a group of ranks, in which each rank receives its slices.
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/group/subgroup.hpp>
#include <ikebana/shard/group/transfer.hpp>
#include <ikebana/shard/sliced/unit_cut.hpp>

namespace ikebana::detail {

/// The slices of a unit's gradients that belong to one rank, as a message: flags that say which
/// slices exist, the small slices in one tensor, and the large ones in place. Among hosts the flags
/// travel with the small slices; among devices they are a message of their own, since hosts read
/// them. `cut` and `dtypes` outlive it.
class SliceMessage {
 public:
  /// Allocates the message that `rank` receives.
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes, c10::Device device);
  /// Makes the message that is sent to `rank`, in `dtypes`. A slice is undefined if there is no
  /// gradient.
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes, c10::Device device,
               const Tensors& slices);
  bool has(std::size_t i) const;
  at::Tensor slice(std::size_t i) const;
  /// Adds the tensors of the message to `tensors`, and the flags, if they are a message of their
  /// own, to `flags`.
  void add_to(std::vector<at::Tensor>& tensors, std::vector<at::Tensor>& flags) const;

 private:
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes,
               const at::TensorOptions& options);
  /// Returns the bytes of flags before the small slices.
  std::int64_t head(const UnitCut& cut) const;

  at::TensorOptions options_;
  SmallSlices small_layout_;
  at::Tensor flags_, small_;
  Tensors large_;  // the large gradients, by parameter; undefined for a small one
};

/// The transfer of such messages: of the tensors and, among devices, of the flags.
struct SliceTransfer {
  Transfer flags, tensors;

  /// Begins the transfer between members of the group. Among devices the flags have `tag + 1`.
  template <class Group>
  SliceTransfer(Group& group, int tag, c10::Device device, TensorsOfRanks to, TensorsOfRanks from,
                TensorsOfRanks flags_to, TensorsOfRanks flags_from) {
    if (!device.is_cpu())
      flags = group.swap(tag + 1, std::move(flags_to), std::move(flags_from), at::kCPU);
    tensors = group.swap(tag, std::move(to), std::move(from), device);
  }
  SliceTransfer() = default;
  template <class Group>
  void receive(Group& group) {
    group.receive(std::move(flags)), group.receive(std::move(tensors));
  }
  /// Waits also until everything is sent.
  template <class Group>
  void wait(Group& group) {
    group.wait(flags), group.wait(tensors);
  }
  template <class Group>
  void keep(Group& group) {
    group.keep(std::move(flags)), group.keep(std::move(tensors));
  }
};

/// A sum of tensors, in the order in which they are added. It writes only to tensors of its own,
/// whose memory no other tensor has.
class RunningSum {
 public:
  void add(const at::Tensor& one, bool is_own);
  /// Returns the sum, which is undefined if nothing was added.
  at::Tensor result() const { return sum_.defined() && !is_own_ ? sum_.clone() : sum_; }

 private:
  at::Tensor sum_;
  bool is_own_ = false;
};

/// One reduction under way: each rank sends the others their rows. Ranks that have a gradient are
/// added up in the order of ranks; the sum is undefined if no rank has one. Each of N ranks sends
/// and receives (N - 1) / N of the gradients.
class UnitReduction {
 public:
  /// `gradients` has one tensor for each parameter, undefined if this rank has no gradient. They
  /// are sent and summed in `dtypes`, which outlive this, as `cut` does. Among devices `tag + 1` is
  /// used, too.
  UnitReduction(Subgroup& group, int tag, const UnitCut& cut, Tensors gradients,
                const DTypes& dtypes, c10::Device device);
  /// Waits, and adds up, beginning with `before` if it is given. Throws RankFailed.
  Tensors finish(Subgroup& group, const Tensors& before = {});

 private:
  /// Returns the rows of this rank's gradients that belong to `rank`.
  Tensors slices(std::int64_t rank) const;
  at::Tensor sum(std::size_t i, const at::Tensor& own, const at::Tensor& before) const;

  const UnitCut& cut_;
  Tensors gradients_;
  std::int64_t rank_;
  std::vector<std::optional<SliceMessage>> received_;  // one from each other rank
  SliceTransfer transfer_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/unit_reduction.ipp>
#endif
