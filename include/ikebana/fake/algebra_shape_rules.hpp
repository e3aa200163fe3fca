#pragma once
// The shapes that distances, Fourier transforms and linear algebra return.
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge::detail {

/// Matrices of which the columns lie in memory one after the other, as LAPACK wants them.
Shape columns(std::vector<std::int64_t> sizes, at::ScalarType type);
template <std::size_t I>
Shapes like_columns(const OperatorCall& call) {
  return {columns(tensor_at(call, I).sizes().vec(), tensor_at(call, I).scalar_type())};
}
/// The common batch of two arguments, then these two sizes.
std::vector<std::int64_t> batched(const at::Tensor& a, const at::Tensor& b, std::int64_t rows,
                                  std::int64_t width);
/// (self, B, upper, left, ...).
Shapes solve_triangular(const OperatorCall& call);
/// (x1, x2, p, mode): a distance for each pair of rows.
Shapes cdist(const OperatorCall& call);
/// (gradient, x1, x2, p, distances).
Shapes cdist_backward(const OperatorCall& call);
/// (self, p).
Shapes pdist(const OperatorCall& call);
/// (self, dims, normalization, onesided).
Shapes fft_of_real(const OperatorCall& call);
/// (self, dims, normalization, last size).
Shapes fft_to_real(const OperatorCall& call);
/// (self, batch1, batch2, ...): one matrix, the sum of products.
Shapes addbmm(const OperatorCall& call);
/// (self, vector, vector, ...).
Shapes addr(const OperatorCall& call);
/// (self, mat2): 32-bit sums of 8-bit integers.
Shapes int_mm(const OperatorCall& call);
/// (self, mat2, scales of both, bias, scale of the result, out_dtype, ...).
Shapes scaled_mm(const OperatorCall& call);
/// (v, g, dim): the weight, and the norms, which are FP32 for BF16.
Shapes weight_norm(const OperatorCall& call);

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

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/algebra_shape_rules.ipp>
#endif
