#pragma once
// The shapes that element-wise operators return of which LibTorch's C++ side has no meta kernel.
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge::detail {

Shapes where(const OperatorCall& call);
Shapes with_mask(const OperatorCall& call);
/// (gradient, self, weight): both results have all elements; the second is summed afterwards.
Shapes prelu_backward(const OperatorCall& call);
/// (real, imaginary), (absolute value, angle).
Shapes complex(const OperatorCall& call);
/// (self, samples, replacement, generator).
Shapes multinomial(const OperatorCall& call);
/// (self, ..., out_int32, ...) and (boundaries, self, out_int32, ...): numbers of places.
template <std::size_t Of, std::size_t IsInt>
Shapes places(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, Of);
  return {{t.defined() ? t.sizes().vec() : std::vector<std::int64_t>(),
           bool_at(call, IsInt) ? at::kInt : at::kLong}};
}

/// By the name of the operator, with its overload.
inline constexpr NamedShapeRule shape_rules[] = {
    {"aten::abs", &dense_real},
    {"aten::angle", &dense_real},
    {"aten::relu", &dense<0>},
    {"aten::hardtanh", &dense<0>},
    {"aten::hardtanh_backward", &binary<0, 1>},
    {"aten::hardswish", &dense<0>},
    {"aten::hardswish_backward", &binary<0, 1>},
    {"aten::mish_backward", &binary<0, 1>},
    {"aten::log_sigmoid_forward", &like<0, 0>},
    {"aten::log_sigmoid_backward", &like<1>},
    {"aten::glu_backward", &like<1>},
    {"aten::rrelu_with_noise", &like<0>},
    {"aten::_prelu_kernel", &binary<0, 1>},
    {"aten::_prelu_kernel_backward", &prelu_backward},
    {"aten::isnan", &dense_bool<0>},
    {"aten::logical_not", &dense_bool<0>},
    {"aten::logical_and", &compared<0, 1>},
    {"aten::logical_or", &compared<0, 1>},
    {"aten::logical_xor", &compared<0, 1>},
    {"aten::logit", &dense<0>},
    {"aten::nan_to_num", &dense<0>},
    {"aten::flip", &dense<0>},
    {"aten::roll", &like<0>},
    {"aten::rsub.Tensor", &binary<0, 1>},
    {"aten::rsub.Scalar", &binary<0, 1>},
    {"aten::floor_divide", &binary<0, 1>},
    {"aten::floor_divide.Scalar", &binary<0, 1>},
    {"aten::remainder.Scalar_Tensor", &binary<0, 1>},
    {"aten::__lshift__.Tensor", &binary<0, 1>},
    {"aten::__lshift__.Scalar", &binary<0, 1>},
    {"aten::__rshift__.Tensor", &binary<0, 1>},
    {"aten::__rshift__.Scalar", &binary<0, 1>},
};
inline constexpr NamedShapeRule more_shape_rules[] = {
    {"aten::where.self", &where},
    {"aten::complex", &complex},
    {"aten::polar", &complex},
    {"aten::native_dropout", &with_mask},
    {"aten::native_dropout_backward", &dense<0>},
    {"aten::poisson", &like<0>},
    {"aten::binomial", &like<0>},
    {"aten::_standard_gamma", &like<0>},
    {"aten::multinomial", &multinomial},
    {"aten::bucketize.Tensor", &places<0, 2>},
    {"aten::bucketize.Scalar", &places<0, 2>},
    {"aten::searchsorted.Tensor", &places<1, 2>},
    {"aten::searchsorted.Scalar", &places<1, 2>},
    {"aten::_assert_async", &nothing},
    {"aten::_assert_async.msg", &nothing},
};

}  // namespace ikebana::bridge::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/shape_rules.ipp>
#endif
