#pragma once
// The shapes that distances, Fourier transforms and linear algebra return.
#include <ikebana/bridge/shape.hpp>

namespace ikebana::bridge::detail {

/// Matrices of which the columns lie in memory one after the other, as LAPACK wants them.
inline Shape columns(std::vector<std::int64_t> sizes, at::ScalarType type) {
  std::swap(sizes[sizes.size() - 1], sizes[sizes.size() - 2]);
  return Shape::of(at::empty(sizes, at::TensorOptions(at::kMeta).dtype(type)).mT());
}
template <std::size_t I>
Shapes like_columns(const OperatorCall& call) {
  return {columns(tensor_at(call, I).sizes().vec(), tensor_at(call, I).scalar_type())};
}
/// The common batch of two arguments, then these two sizes.
inline std::vector<std::int64_t> batched(const at::Tensor& a, const at::Tensor& b,
                                         std::int64_t rows, std::int64_t width) {
  auto sizes = at::infer_size(a.sizes().slice(0, static_cast<std::size_t>(a.dim() - 2)),
                              b.sizes().slice(0, static_cast<std::size_t>(b.dim() - 2)));
  sizes.insert(sizes.end(), {rows, width});
  return sizes;
}
/// (self, B, upper, left, ...).
inline Shapes solve_triangular(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 0), b = tensor_at(call, 1);
  const auto sizes = batched(a, b, b.size(-2), b.size(-1));
  return {columns(sizes, b.scalar_type())};
}
/// (x1, x2, p, mode): a distance for each pair of rows.
inline Shapes cdist(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 0), b = tensor_at(call, 1);
  return {{batched(a, b, a.size(-2), b.size(-2)), a.scalar_type()}};
}
/// (gradient, x1, x2, p, distances).
inline Shapes cdist_backward(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 1);
  return {{batched(a, tensor_at(call, 2), a.size(-2), a.size(-1)), a.scalar_type()}};
}
/// (self, p).
inline Shapes pdist(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return {{{t.size(0) * (t.size(0) - 1) / 2}, t.scalar_type()}};
}
/// (self, dims, normalization, onesided).
inline Shapes fft_of_real(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape{t.sizes().vec(), c10::toComplexType(t.scalar_type())};
  if (bool_at(call, 3)) {
    const std::int64_t last = at::maybe_wrap_dim(ints_at(call, 1).back(), t.dim());
    auto& size = shape.sizes[static_cast<std::size_t>(last)];
    size = size / 2 + 1;
  }
  return {shape};
}
/// (self, dims, normalization, last size).
inline Shapes fft_to_real(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape{t.sizes().vec(), c10::toRealValueType(t.scalar_type())};
  const std::int64_t last = at::maybe_wrap_dim(ints_at(call, 1).back(), t.dim());
  shape.sizes[static_cast<std::size_t>(last)] = int_at(call, 3);
  return {shape};
}
/// (self, batch1, batch2, ...): one matrix, the sum of products.
inline Shapes addbmm(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 1), b = tensor_at(call, 2);
  return {{{a.size(1), b.size(2)}, a.scalar_type()}};
}
/// (self, vector, vector, ...).
inline Shapes addr(const OperatorCall& call) {
  const at::Tensor outer = at::mul(meta_at(call, 1).unsqueeze(1), meta_at(call, 2));
  return {Shape::of(at::add(meta_at(call, 0), outer))};
}
/// (self, mat2): 32-bit sums of 8-bit integers.
inline Shapes int_mm(const OperatorCall& call) {
  return {{{tensor_at(call, 0).size(0), tensor_at(call, 1).size(1)}, at::kInt}};
}
/// (self, mat2, scales of both, bias, scale of the result, out_dtype, ...).
inline Shapes scaled_mm(const OperatorCall& call) {
  const c10::IValue& type = call.arguments()[6];
  return {{{tensor_at(call, 0).size(0), tensor_at(call, 1).size(1)},
           type.isNone() ? tensor_at(call, 0).scalar_type() : type.toScalarType()}};
}
/// (v, g, dim): the weight, and the norms, which are FP32 for BF16.
inline Shapes weight_norm(const OperatorCall& call) {
  const at::Tensor v = tensor_at(call, 0), g = tensor_at(call, 1);
  const auto type = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  return {Shape::like(v), {g.sizes().vec(), type}};
}

inline constexpr NamedShapeRule algebra_shape_rules[] = {
    {"aten::linalg_solve_triangular", &solve_triangular},
    {"aten::cholesky_inverse", &like_columns<0>},
    {"aten::_cholesky_solve_helper", &like_columns<0>},
    {"aten::linalg_matrix_exp", &like<0>},
    {"aten::linalg_householder_product", &like_columns<0>},
    {"aten::_linalg_check_errors", &nothing},
    {"aten::_cdist_forward", &cdist},
    {"aten::_cdist_backward", &cdist_backward},
    {"aten::_pdist_forward", &pdist},
    {"aten::_pdist_backward", &like<1>},
    {"aten::_fft_r2c", &fft_of_real},
    {"aten::_fft_c2c", &dense<0>},
    {"aten::_fft_c2r", &fft_to_real},
    {"aten::addbmm", &addbmm},
    {"aten::addr", &addr},
    {"aten::_int_mm", &int_mm},
    {"aten::_scaled_mm", &scaled_mm},
    {"aten::_weight_norm_interface", &weight_norm},
    {"aten::_weight_norm_interface_backward", &like<1, 2>},
};

}  // namespace ikebana::bridge::detail
