#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_over.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor tensor_over(void* memory, at::IntArrayRef sizes, at::IntArrayRef strides,
                                      at::ScalarType type, std::shared_ptr<void> owner) {
  using Owner = std::shared_ptr<void>;
  auto kept = std::make_unique<Owner>(std::move(owner));
  c10::DataPtr data(
      memory, kept.release(), [](void* own) { delete static_cast<Owner*>(own); }, at::kCPU);
  const std::size_t bytes =
      at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, std::move(data));
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(type));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides);
  return t;
}

}  // namespace ikebana::detail
