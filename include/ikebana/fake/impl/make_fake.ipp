#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/make_fake.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE at::Tensor FakeTensors::make(at::IntArrayRef sizes, at::ScalarType type,
                                            c10::Device device) {
  return make(sizes, c10::contiguous_strides(sizes), type, device);
}

IKEBANA_INLINE at::Tensor FakeTensors::make(at::IntArrayRef sizes, at::IntArrayRef strides,
                                            at::ScalarType type, c10::Device device,
                                            std::size_t at_least) {
  const std::size_t bytes =
      std::max(at_least, at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)));
  const bool is_number = device.is_cpu() && c10::multiply_integers(sizes) == 1;
  return ikebana::detail::tensor_on(is_number ? fake_number(memory_, type, device, bytes)
                                              : fake_storage(memory_, bytes, device, no_values),
                                    sizes, strides, 0, type);
}

IKEBANA_INLINE at::Tensor FakeTensors::make(const Shape& shape, c10::Device device) {
  const c10::DimVector contiguous = c10::contiguous_strides(shape.sizes);
  return make(shape.sizes, shape.strides.empty() ? at::IntArrayRef(contiguous) : shape.strides,
              shape.type, device, static_cast<std::size_t>(shape.bytes));
}

IKEBANA_INLINE void FakeTensors::use(std::int64_t bytes) {
  if (bytes > 0) memory_->freed(memory_->allocated(static_cast<std::size_t>(bytes), at::kCPU));
}

}  // namespace ikebana::bridge
