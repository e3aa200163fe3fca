#pragma once
// The sum of a unit's gradients over a group of ranks, in which each rank receives its slices.
#include <ikebana/ranks/rank_group.hpp>
#include <ikebana/shard/group/subgroup.hpp>
#include <ikebana/shard/group/transfer.hpp>
#include <ikebana/shard/sliced/unit_cut.hpp>

namespace ikebana::detail {

/// The slices of a unit's gradients that belong to one rank: which of them there are, the small
/// ones in one tensor, and the large ones in place. Among hosts the flags travel with the small
/// slices; among devices they are a message of their own, since hosts read them. `cut` and `dtypes`
/// outlive it.
class SliceMessage {
 public:
  /// Memory for what `rank` receives.
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes, c10::Device device);
  /// What `rank` is sent, in `dtypes`; undefined where there is no gradient.
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes, c10::Device device,
               const Tensors& slices);
  bool has(std::size_t i) const;
  at::Tensor slice(std::size_t i) const;
  /// The tensors of the message, and, where they are apart, the flags.
  void add_to(std::vector<at::Tensor>& tensors, std::vector<at::Tensor>& flags) const;

 private:
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes,
               const at::TensorOptions& options);
  /// Bytes of flags before the small slices.
  std::int64_t head(const UnitCut& cut) const;

  at::TensorOptions options_;
  SmallSlices small_layout_;
  at::Tensor flags_, small_;
  Tensors large_;  // by parameter; undefined: it is a small one
};

/// A transfer of such messages: its tensors and, among devices, its flags.
struct SliceTransfer {
  Transfer flags, tensors;

  /// Begins it between members of the group. Among devices `tag + 1` has the flags.
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
  /// Waits for what is sent, too.
  template <class Group>
  void wait(Group& group) {
    group.wait(flags), group.wait(tensors);
  }
  template <class Group>
  void keep(Group& group) {
    group.keep(std::move(flags)), group.keep(std::move(tensors));
  }
};

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
