#pragma once
// The shapes that losses, reductions and look-ups return of which LibTorch's C++ side has no meta
// kernel.
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge::detail {

/// at::Reduction::None, whose name is a macro of X11.
inline constexpr std::int64_t no_reduction = 0;

/// Losses of (input, target, [weight], reduction): one element, or one for each of the input. Some
/// kernels reduce in the memory of all elements, and return that.
template <std::size_t Reduction, bool Keeps>
Shapes loss(const OperatorCall& call) {
  Shapes all = binary<0, 1>(call);
  if (int_at(call, Reduction) == no_reduction) return all;
  const std::int64_t elements = c10::multiply_integers(all[0].sizes);
  const auto itemsize = static_cast<std::int64_t>(c10::elementSize(all[0].type));
  return {{.type = all[0].type, .bytes = Keeps ? elements * itemsize : 0}};
}
/// (self, target, p, margin, weight, reduction): one element, or one for each row.
Shapes multi_margin_loss(const OperatorCall& call);
/// (self, target, reduction): the loss, and where targets are.
Shapes multilabel_margin_loss(const OperatorCall& call);
/// (log probabilities, targets, input lengths, target lengths, ...): the losses, and the logarithms
/// of alpha, for the longest target. Of lengths in tensors the row length of targets is the most.
Shapes ctc_loss(const OperatorCall& call);
/// (self, target, weight, reduction, ignore_index): the loss, and the sum of the weights.
Shapes nll_loss2d(const OperatorCall& call);

/// The sizes that are left of a tensor; no dimensions: of all of them.
std::vector<std::int64_t> reduced(const at::Tensor& t, const c10::IValue& dims, bool keep);
/// std, var and their pairs with the mean: (self, dims, correction, keepdim).
template <std::size_t Results>
Shapes moments(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return Shapes(Results, {reduced(t, call.arguments()[1], bool_at(call, 3)), t.scalar_type()});
}
/// The dtype of a sum or a product: the one that is asked for, or Long of integers.
at::ScalarType sum_type(const OperatorCall& call, std::size_t type);
/// (self, dtype).
inline Shapes whole_product(const OperatorCall& call) { return {{{}, sum_type(call, 1)}}; }
/// (self, dims, keepdim, dtype).
Shapes sum_of_dims(const OperatorCall& call);
/// (self, ..., dim, keepdim): values, and where they are.
template <std::size_t Dim>
Shapes value_and_index(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  const auto sizes = reduced(t, call.arguments()[Dim], bool_at(call, Dim + 1));
  return {{sizes, t.scalar_type()}, {sizes, at::kLong}};
}
/// (self, dims).
Shapes count(const OperatorCall& call);
Shapes index_select(const OperatorCall& call);
/// (self, index).
Shapes take(const OperatorCall& call);
/// (self, dim, start, length).
Shapes narrow_copy(const OperatorCall& call);
/// (gradient, sizes, ...).
Shapes of_sizes(const OperatorCall& call);
/// (rows, columns, offset, dtype, ...): those below or above the diagonal.
template <bool Lower>
Shapes triangle(const OperatorCall& call) {
  const std::int64_t rows = int_at(call, 0), columns = int_at(call, 1), offset = int_at(call, 2);
  std::int64_t elements = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t before = std::clamp<std::int64_t>(row + offset + Lower, 0, columns);
    elements += Lower ? before : columns - before;
  }
  const c10::IValue& type = call.arguments()[3];
  return {{{2, elements}, type.isNone() ? at::kLong : type.toScalarType()}};
}

inline constexpr NamedShapeRule loss_shape_rules[] = {
    {"aten::mse_loss", &loss<2, true>},
    {"aten::mse_loss_backward", &like<1>},
    {"aten::smooth_l1_loss", &loss<2, true>},
    {"aten::huber_loss", &loss<2, false>},
    {"aten::binary_cross_entropy", &loss<3, true>},
    {"aten::binary_cross_entropy_backward", &dense<1>},
    {"aten::multi_margin_loss", &multi_margin_loss},
    {"aten::multi_margin_loss_backward", &like<1>},
    {"aten::multilabel_margin_loss_forward", &multilabel_margin_loss},
    {"aten::multilabel_margin_loss_backward", &like<1>},
    {"aten::_ctc_loss", &ctc_loss},
    {"aten::_ctc_loss_backward", &like<1>},
    {"aten::nll_loss2d_forward", &nll_loss2d},
    {"aten::nll_loss2d_backward", &like<1>},
    {"aten::_masked_softmax", &dense<0>},
    {"aten::_masked_softmax_backward", &like<0>},
    {"aten::_logcumsumexp", &like<0>},
};
inline constexpr NamedShapeRule reduction_shape_rules[] = {
    {"aten::std.correction", &moments<1>},
    {"aten::var.correction", &moments<1>},
    {"aten::std_mean.correction", &moments<2>},
    {"aten::var_mean.correction", &moments<2>},
    {"aten::prod", &whole_product},
    {"aten::prod.dim_int", &sum_of_dims},
    {"aten::nansum", &sum_of_dims},
    {"aten::max", &one_element},
    {"aten::min", &one_element},
    {"aten::median", &one_element},
    {"aten::nanmedian", &one_element},
    {"aten::median.dim", &value_and_index<1>},
    {"aten::nanmedian.dim", &value_and_index<1>},
    {"aten::mode", &value_and_index<1>},
    {"aten::kthvalue", &value_and_index<2>},
    {"aten::count_nonzero.dim_IntList", &count},
    {"aten::dot", &one_element},
    {"aten::vdot", &one_element},
    {"aten::trace", &one_element},
    {"aten::index_select", &index_select},
    {"aten::take", &take},
    {"aten::narrow_copy", &narrow_copy},
    {"aten::unfold_backward", &of_sizes},
    {"aten::tril_indices", &triangle<true>},
    {"aten::triu_indices", &triangle<false>},
};

}  // namespace ikebana::bridge::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/reduction_shape_rules.ipp>
#endif
