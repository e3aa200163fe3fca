#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool same_storage(const at::Tensor& a, const at::Tensor& b) {
  return a.has_storage() && b.has_storage() && key_of(a) == key_of(b);
}

IKEBANA_INLINE std::string name_of(const c10::OperatorHandle& op) {
  // A stream, as in c10::toString, would cut the name short if an allocation fails.
  const c10::OperatorName& of = op.operator_name();
  return of.overload_name.empty() ? of.name : of.name + "." + of.overload_name;
}

IKEBANA_INLINE bool is_plain(const at::Tensor& t) {
  return t.layout() == at::kStrided && t.has_storage() && !t.is_quantized() && !t.is_conj() &&
         !t.is_neg() && !t.unsafeGetTensorImpl()->is_python_dispatch();
}

IKEBANA_INLINE at::Tensor tensor_on(c10::Storage storage, at::IntArrayRef sizes,
                                    at::IntArrayRef strides, std::int64_t offset,
                                    at::ScalarType type) {
  const c10::DispatchKeySet keys(c10::computeDispatchKey(type, std::nullopt, storage.device()));
  at::Tensor t = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), keys,
                                                          c10::scalarTypeToTypeMeta(type));
  t.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return t;
}

IKEBANA_INLINE at::Tensor tensor_over(const c10::Storage& storage, const at::Tensor& like) {
  at::Tensor t =
      tensor_on(storage, like.sizes(), like.strides(), like.storage_offset(), like.scalar_type());
  if (like.unsafeGetTensorImpl()->is_wrapped_number())
    t.unsafeGetTensorImpl()->set_wrapped_number(true);
  return t;
}

IKEBANA_INLINE c10::Storage storage_without_memory(c10::Device device, std::size_t bytes) {
  c10::Storage storage = at::empty({0}, at::TensorOptions(at::kByte).device(device)).storage();
  storage.set_nbytes(bytes);
  return storage;
}

IKEBANA_INLINE void set_error(const c10::Storage& storage, const std::string& text) {
  storage.unsafeGetStorageImpl()->release_data_and_set_meta_custom_data_ptr_error_msg_(text);
}

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
