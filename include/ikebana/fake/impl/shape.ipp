#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE Shape Shape::like(const at::Tensor& t) {
  return t.defined() ? Shape{t.sizes().vec(), t.scalar_type()} : none();
}

IKEBANA_INLINE Shape Shape::of(const at::Tensor& meta) {
  return {.sizes = meta.sizes().vec(), .type = meta.scalar_type(), .strides = meta.strides().vec()};
}

}  // namespace ikebana::bridge

namespace ikebana::bridge::detail {

IKEBANA_INLINE at::Tensor tensor_at(const OperatorCall& call, std::size_t i) {
  const c10::IValue& value = call.arguments()[i];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

IKEBANA_INLINE std::vector<std::int64_t> ints_at(const OperatorCall& call, std::size_t i) {
  return call.arguments()[i].toIntVector();
}

IKEBANA_INLINE std::int64_t int_at(const OperatorCall& call, std::size_t i) {
  return call.arguments()[i].toInt();
}

IKEBANA_INLINE bool bool_at(const OperatorCall& call, std::size_t i) {
  return call.arguments()[i].toBool();
}

IKEBANA_INLINE std::int64_t of_dim(const std::vector<std::int64_t>& list, std::size_t i) {
  return list.size() == 1 ? list[0] : list.at(i);
}

IKEBANA_INLINE at::Tensor meta_at(const OperatorCall& call, std::size_t i) {
  const c10::IValue& value = call.arguments()[i];
  if (value.isScalar()) return at::native::wrapped_scalar_tensor(value.toScalar());
  const at::Tensor t = value.toTensor();
  at::Tensor meta = at::empty_strided(t.sizes(), t.strides(), t.options().device(at::kMeta));
  if (t.unsafeGetTensorImpl()->is_wrapped_number())
    meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  return meta;
}

IKEBANA_INLINE Shapes dense_real(const OperatorCall& call) {
  Shapes all = dense<0>(call);
  all[0].type = c10::toRealValueType(all[0].type);
  return all;
}

IKEBANA_INLINE Shapes one_element(const OperatorCall& call) {
  return {{{}, tensor_at(call, 0).scalar_type()}};
}

}  // namespace ikebana::bridge::detail
