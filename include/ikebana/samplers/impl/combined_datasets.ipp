#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/samplers/combined_datasets.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_sample_index(const char* who, std::int64_t index, std::int64_t samples) {
  if (index < 0 || index >= samples)
    throw BadValue(std::string(who) + ": there is no sample " + std::to_string(index) +
                   "; it has " + std::to_string(samples) + ". Count from 0.");
}

IKEBANA_INLINE std::vector<std::int64_t> subset_indices(const at::Tensor& indices,
                                                        std::int64_t samples) {
  if (!indices.defined() || indices.dim() != 1 || indices.numel() == 0 ||
      !at::isIntegralType(indices.scalar_type(), /*includeBool=*/false))
    throw BadValue(
        "Subset: give the indices of its samples as integers, in a tensor of one dimension; for a "
        "mask write mask.nonzero().squeeze(1).");
  const at::Tensor all = indices.to(at::kCPU, at::kLong).contiguous();
  const auto* first = static_cast<const std::int64_t*>(all.const_data_ptr());
  for (std::int64_t i = 0; i < all.numel(); ++i)
    check_sample_index("Subset of a dataset", first[i], samples);
  return {first, first + all.numel()};
}

IKEBANA_INLINE void throw_sizes_differ(std::int64_t first, std::int64_t other) {
  throw BadValue("StackDataset: its datasets have " + std::to_string(first) + " and " +
                 std::to_string(other) + " samples; they must have as many.");
}

}  // namespace ikebana::detail
