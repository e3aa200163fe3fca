#pragma once
#include <ikebana/data/dataset.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE const std::int64_t* index_data(const char* who, const at::Tensor& indices) {
  const bool fits = indices.defined() && indices.is_cpu() && indices.dim() == 1 &&
                    indices.scalar_type() == at::kLong && indices.is_contiguous();
  if (!fits)
    throw BadValue(std::string(who) + ": the indices are " +
                   (indices.defined()
                        ? c10::toString(indices.scalar_type()) + c10::str(indices.sizes()) +
                              " on " + indices.device().str()
                        : std::string("undefined")) +
                   ". Give them as Long on the CPU, contiguous, in one dimension: "
                   "at::tensor({0, 1}, at::kLong).");
  return static_cast<const std::int64_t*>(indices.const_data_ptr());
}

}  // namespace ikebana::detail
