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

IKEBANA_INLINE Shape suggested(const at::Tensor& t, const std::vector<std::int64_t>& sizes,
                               at::ScalarType type) {
  const auto options = at::TensorOptions(at::kMeta).dtype(type);
  return Shape::of(at::empty(sizes, options.memory_format(t.suggest_memory_format())));
}

IKEBANA_INLINE Shape columns(std::vector<std::int64_t> sizes, at::ScalarType type) {
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  return Shape::of(at::empty(sizes, at::TensorOptions(at::kMeta).dtype(type)).mT());
}

IKEBANA_INLINE std::vector<std::int64_t> batched(const at::Tensor& a, const at::Tensor& b,
                                                 std::int64_t rows, std::int64_t width) {
  auto sizes = at::infer_size(a.sizes().slice(0, static_cast<std::size_t>(a.dim() - 2)),
                              b.sizes().slice(0, static_cast<std::size_t>(b.dim() - 2)));
  sizes.insert(sizes.end(), {rows, width});
  return sizes;
}

IKEBANA_INLINE std::vector<std::int64_t> reduced(const at::Tensor& t, const c10::IValue& dims,
                                                 bool keep) {
  std::vector<std::int64_t> list;
  if (dims.isInt()) list = {dims.toInt()};
  if (dims.isIntList()) list = dims.toIntVector();
  std::vector<bool> is_reduced(static_cast<std::size_t>(t.dim()), list.empty());
  for (const std::int64_t d : list)
    if (t.dim() > 0) is_reduced[static_cast<std::size_t>(at::maybe_wrap_dim(d, t.dim()))] = true;
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < is_reduced.size(); ++i)
    if (!is_reduced[i] || keep) result.push_back(is_reduced[i] ? 1 : t.sizes()[i]);
  return result;
}

IKEBANA_INLINE at::ScalarType sum_type(const OperatorCall& call, std::size_t type) {
  const at::ScalarType own = tensor_at(call, 0).scalar_type();
  if (!call.arguments()[type].isNone()) return call.arguments()[type].toScalarType();
  return c10::isIntegralType(own, /*includeBool=*/true) ? at::kLong : own;
}

IKEBANA_INLINE Shapes one_element(const OperatorCall& call) {
  return {{{}, tensor_at(call, 0).scalar_type()}};
}

}  // namespace ikebana::bridge::detail
