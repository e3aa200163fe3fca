#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/shard/sliced/slice_message.hpp>

namespace ikebana::detail {

IKEBANA_INLINE SliceMessage::SliceMessage(const UnitCut& cut, std::int64_t rank,
                                          const DTypes& dtypes, c10::Device device)
    : SliceMessage(cut, rank, dtypes, at::TensorOptions(device)) {
  for (std::size_t i = 0; i < cut.count(); ++i)
    if (!cut.is_small(i)) large_[i] = cut.new_slice(i, rank, options_.dtype(dtypes[i]));
}

IKEBANA_INLINE SliceMessage::SliceMessage(const UnitCut& cut, std::int64_t rank,
                                          const DTypes& dtypes, c10::Device device,
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

IKEBANA_INLINE bool SliceMessage::has(std::size_t i) const {
  if (without_values()) return true;
  return static_cast<const std::uint8_t*>(flags_.const_data_ptr())[i] != 0;
}

IKEBANA_INLINE at::Tensor SliceMessage::slice(std::size_t i) const {
  return large_[i].defined() ? large_[i] : small_layout_.slice(small_, i);
}

IKEBANA_INLINE void SliceMessage::add_to(std::vector<at::Tensor>& tensors,
                                         std::vector<at::Tensor>& flags) const {
  if (small_.defined()) tensors.push_back(small_);
  for (const at::Tensor& t : large_)
    if (t.defined()) tensors.push_back(elements_in_memory(t));
  if (!options_.device().is_cpu()) flags.push_back(flags_);
}

IKEBANA_INLINE SliceMessage::SliceMessage(const UnitCut& cut, std::int64_t rank,
                                          const DTypes& dtypes, const at::TensorOptions& options)
    : options_(options), small_layout_(cut, rank, dtypes, head(cut)), large_(cut.count()) {
  if (const auto bytes = small_layout_.bytes(); bytes > 0)
    small_ = at::zeros({bytes}, options_.dtype(at::kByte));
  const auto count = static_cast<std::int64_t>(cut.count());
  const bool apart = head(cut) == 0 || without_values();
  flags_ = apart ? at::zeros({count}, at::kByte) : small_.narrow(0, 0, count);
}

IKEBANA_INLINE std::int64_t SliceMessage::head(const UnitCut& cut) const {
  return options_.device().is_cpu() ? static_cast<std::int64_t>(cut.count()) : 0;
}

}  // namespace ikebana::detail
