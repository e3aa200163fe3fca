#pragma once
// Slices of gradients, as one rank sends them to another.
#include <ikebana/detail/without_values.hpp>
#include <ikebana/shard/messages.hpp>
#include <ikebana/shard/unit_cut.hpp>

namespace ikebana::detail {

/// The slices of a unit's gradients that belong to one rank: which of them there are, the small
/// ones in one tensor, and the large ones in place. Among hosts the flags travel with the small
/// slices; among devices they are a message of their own, since hosts read them. `cut` and `dtypes`
/// outlive it.
class SliceMessage {
 public:
  /// Memory for what `rank` receives.
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes, c10::Device device)
      : SliceMessage(cut, rank, dtypes, at::TensorOptions(device)) {
    for (std::size_t i = 0; i < cut.count(); ++i)
      if (!cut.is_small(i)) large_[i] = cut.new_slice(i, rank, options_.dtype(dtypes[i]));
  }
  /// What `rank` is sent, in `dtypes`; undefined where there is no gradient.
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes, c10::Device device,
               const Tensors& slices)
      : SliceMessage(cut, rank, dtypes, at::TensorOptions(device)) {
    auto* flags = static_cast<std::uint8_t*>(flags_.mutable_data_ptr());
    for (std::size_t i = 0; i < cut.count(); ++i) {
      flags[i] = slices[i].defined();
      if (cut.is_small(i)) {
        if (slices[i].defined()) small_layout_.slice(small_, i).copy_(slices[i]);
      } else if (slices[i].defined()) {
        large_[i] = slices[i];
      } else {  // the other waits for it
        large_[i] = cut.new_slice(i, rank, options_.dtype(dtypes[i])).zero_();
      }
    }
  }
  bool has(std::size_t i) const {
    if (without_values()) return true;
    return static_cast<const std::uint8_t*>(flags_.const_data_ptr())[i] != 0;
  }
  at::Tensor slice(std::size_t i) const {
    return large_[i].defined() ? large_[i] : small_layout_.slice(small_, i);
  }
  /// The tensors of the message, and, where they are apart, the flags.
  void add_to(std::vector<at::Tensor>& tensors, std::vector<at::Tensor>& flags) const {
    if (small_.defined()) tensors.push_back(small_);
    for (const at::Tensor& t : large_)
      if (t.defined()) tensors.push_back(elements_in_memory(t));
    if (!options_.device().is_cpu()) flags.push_back(flags_);
  }

 private:
  SliceMessage(const UnitCut& cut, std::int64_t rank, const DTypes& dtypes,
               const at::TensorOptions& options)
      : options_(options), small_layout_(cut, rank, dtypes, head(cut)), large_(cut.count()) {
    if (const auto bytes = small_layout_.bytes(); bytes > 0)
      small_ = at::zeros({bytes}, options_.dtype(at::kByte));
    const auto count = static_cast<std::int64_t>(cut.count());
    const bool apart = head(cut) == 0 || without_values();
    flags_ = apart ? at::zeros({count}, at::kByte) : small_.narrow(0, 0, count);
  }
  /// Bytes of flags before the small slices.
  std::int64_t head(const UnitCut& cut) const {
    return options_.device().is_cpu() ? static_cast<std::int64_t>(cut.count()) : 0;
  }

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
