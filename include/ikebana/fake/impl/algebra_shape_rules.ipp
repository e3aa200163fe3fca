#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/algebra_shape_rules.hpp>

namespace ikebana::bridge::detail {

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

IKEBANA_INLINE Shapes solve_triangular(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 0), b = tensor_at(call, 1);
  const auto sizes = batched(a, b, b.size(-2), b.size(-1));
  return {columns(sizes, b.scalar_type())};
}

IKEBANA_INLINE Shapes cdist(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 0), b = tensor_at(call, 1);
  return {{batched(a, b, a.size(-2), b.size(-2)), a.scalar_type()}};
}

IKEBANA_INLINE Shapes cdist_backward(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 1);
  return {{batched(a, tensor_at(call, 2), a.size(-2), a.size(-1)), a.scalar_type()}};
}

IKEBANA_INLINE Shapes pdist(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return {{{t.size(0) * (t.size(0) - 1) / 2}, t.scalar_type()}};
}

IKEBANA_INLINE Shapes fft_of_real(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape{t.sizes().vec(), c10::toComplexType(t.scalar_type())};
  if (bool_at(call, 3)) {
    const std::int64_t last = at::maybe_wrap_dim(ints_at(call, 1).back(), t.dim());
    auto& size = shape.sizes[static_cast<std::size_t>(last)];
    size = size / 2 + 1;
  }
  return {shape};
}

IKEBANA_INLINE Shapes fft_to_real(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape{t.sizes().vec(), c10::toRealValueType(t.scalar_type())};
  const std::int64_t last = at::maybe_wrap_dim(ints_at(call, 1).back(), t.dim());
  shape.sizes[static_cast<std::size_t>(last)] = int_at(call, 3);
  return {shape};
}

IKEBANA_INLINE Shapes addbmm(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 1), b = tensor_at(call, 2);
  return {{{a.size(1), b.size(2)}, a.scalar_type()}};
}

IKEBANA_INLINE Shapes addr(const OperatorCall& call) {
  const at::Tensor outer = at::mul(meta_at(call, 1).unsqueeze(1), meta_at(call, 2));
  return {Shape::of(at::add(meta_at(call, 0), outer))};
}

IKEBANA_INLINE Shapes int_mm(const OperatorCall& call) {
  return {{{tensor_at(call, 0).size(0), tensor_at(call, 1).size(1)}, at::kInt}};
}

IKEBANA_INLINE Shapes scaled_mm(const OperatorCall& call) {
  const c10::IValue& type = call.arguments()[6];
  return {{{tensor_at(call, 0).size(0), tensor_at(call, 1).size(1)},
           type.isNone() ? tensor_at(call, 0).scalar_type() : type.toScalarType()}};
}

IKEBANA_INLINE Shapes weight_norm(const OperatorCall& call) {
  const at::Tensor v = tensor_at(call, 0), g = tensor_at(call, 1);
  const auto type = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  return {Shape::like(v), {g.sizes().vec(), type}};
}

}  // namespace ikebana::bridge::detail
