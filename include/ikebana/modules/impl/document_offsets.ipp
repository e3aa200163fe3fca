#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/recording.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/document_offsets.hpp>

namespace ikebana::modules {

IKEBANA_INLINE DocumentOffsets::DocumentOffsets(const Ragged& documents) {
  if (!documents.defined())
    throw Error("attention: the Ragged of .offsets has no documents; give the batch's");
  tensor_ = documents.offsets();
  lengths_ = documents.lengths();
  total_ = documents.values().size(0);
}

IKEBANA_INLINE DocumentOffsets::DocumentOffsets(const at::Tensor& offsets) : tensor_(offsets) {
  if (!offsets.defined()) return;
  const bool fits = offsets.dim() == 1 && offsets.numel() > 1 &&
                    (offsets.scalar_type() == at::kLong || offsets.scalar_type() == at::kInt);
  if (!fits)
    throw Error("attention: offsets are " + std::string(c10::toString(offsets.scalar_type())) +
                c10::str(offsets.sizes()) +
                "; give one dimension of Long or Int, with one more number than documents");
  if (detail::recording())
    throw Error(
        "attention: the step is recorded, and each replay would use the lengths of documents of "
        "the recorded batch; train packed batches without Capture");
  const at::Tensor host = offsets.to(at::kCPU, at::kLong).contiguous();
  const auto* position = static_cast<const std::int64_t*>(host.const_data_ptr());
  for (std::int64_t i = 0; i + 1 < host.numel(); ++i) {
    lengths_.push_back(position[i + 1] - position[i]);
    if (position[0] != 0 || lengths_.back() < 0)
      throw Error("attention: offsets have " + std::to_string(position[i]) + " and " +
                  std::to_string(position[i + 1]) + " as numbers " + std::to_string(i) + " and " +
                  std::to_string(i + 1) + "; they must begin with 0 and never fall");
  }
  total_ = position[host.numel() - 1];
}

}  // namespace ikebana::modules
