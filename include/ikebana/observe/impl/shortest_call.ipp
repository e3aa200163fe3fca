#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/shortest_call.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor whole_numbers(at::IntArrayRef sizes, at::ScalarType dtype,
                                        c10::Device device) {
  const std::int64_t count = c10::multiply_integers(sizes);
  return at::arange(count, at::TensorOptions(device).dtype(at::kFloat))
      .remainder(7)
      .sub(3)
      .reshape(sizes)
      .to(dtype);
}

}  // namespace ikebana::detail
