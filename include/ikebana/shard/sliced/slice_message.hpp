#pragma once
// Slices of gradients, as one rank sends them to another.
#include <ikebana/ranks/rank_group.hpp>
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

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/slice_message.ipp>
#endif
