#pragma once
// Defines the shapes that operators return for which LibTorch's C++ side has no meta kernel. The
// table gives each operator's name its rule. The comment of a rule lists the arguments of the
// operator.
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge {
namespace detail {

Shapes where(const OperatorCall& call);
inline Shapes with_mask(const OperatorCall& call) {
  return {dense<0>(call)[0], dense_bool<0>(call)[0]};
}
/// Takes (gradient, self, weight). Both results have all elements, and the second is summed
/// afterwards.
Shapes prelu_backward(const OperatorCall& call);
/// Takes (real, imaginary) or (absolute value, angle).
Shapes complex(const OperatorCall& call);
/// Takes (self, samples, replacement, generator).
Shapes multinomial(const OperatorCall& call);
/// Takes (self, ..., out_int32, ...) or (boundaries, self, out_int32, ...). Returns the numbers of
/// places.
template <std::size_t Of, std::size_t IsInt>
Shapes places(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, Of);
  return {{t.defined() ? t.sizes().vec() : std::vector<std::int64_t>(),
           bool_at(call, IsInt) ? at::kInt : at::kLong}};
}

/// at::Reduction::None, whose name is a macro of X11.
inline constexpr std::int64_t no_reduction = 0;

/// Computes losses of (input, target, [weight], reduction). Returns one element, or one for each of
/// the input. Some kernels reduce in the memory of all elements, and return that memory.
template <std::size_t Reduction, bool Keeps>
Shapes loss(const OperatorCall& call) {
  Shapes all = binary<0, 1>(call);
  if (int_at(call, Reduction) == no_reduction) return all;
  const std::int64_t elements = c10::multiply_integers(all[0].sizes);
  const auto itemsize = static_cast<std::int64_t>(c10::elementSize(all[0].type));
  return {{.type = all[0].type, .bytes = Keeps ? elements * itemsize : 0}};
}
/// Takes (self, target, p, margin, weight, reduction). Returns one element, or one for each row.
Shapes multi_margin_loss(const OperatorCall& call);
/// Takes (self, target, reduction). Returns the loss, and a mask of the targets.
Shapes multilabel_margin_loss(const OperatorCall& call);
/// Takes (log probabilities, targets, input lengths, target lengths, ...). Returns the losses, and
/// the logarithms of alpha, for the longest target. If the lengths are tensors, the row length of
/// the targets is used, which is the most.
Shapes ctc_loss(const OperatorCall& call);
/// Takes (self, target, weight, reduction, ignore_index). Returns the loss, and the sum of the
/// weights.
Shapes nll_loss2d(const OperatorCall& call);

/// Computes std, var and their pairs with the mean. Takes (self, dims, correction, keepdim).
template <std::size_t Results>
Shapes moments(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return Shapes(Results, {reduced(t, call.arguments()[1], bool_at(call, 3)), t.scalar_type()});
}
/// Takes (self, dtype).
inline Shapes whole_product(const OperatorCall& call) { return {{{}, sum_type(call, 1)}}; }
/// Takes (self, dims, keepdim, dtype).
inline Shapes sum_of_dims(const OperatorCall& call) {
  return {{reduced(tensor_at(call, 0), call.arguments()[1], bool_at(call, 2)), sum_type(call, 3)}};
}
/// Takes (self, ..., dim, keepdim). Returns values and their indices.
template <std::size_t Dim>
Shapes value_and_index(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  const auto sizes = reduced(t, call.arguments()[Dim], bool_at(call, Dim + 1));
  return {{sizes, t.scalar_type()}, {sizes, at::kLong}};
}
/// Takes (self, dims).
inline Shapes count(const OperatorCall& call) {
  return {{reduced(tensor_at(call, 0), call.arguments()[1], false), at::kLong}};
}
Shapes index_select(const OperatorCall& call);
/// Takes (self, index).
inline Shapes take(const OperatorCall& call) {
  return {{tensor_at(call, 1).sizes().vec(), tensor_at(call, 0).scalar_type()}};
}
/// Takes (self, dim, start, length).
Shapes narrow_copy(const OperatorCall& call);
/// Takes (gradient, sizes, ...).
inline Shapes of_sizes(const OperatorCall& call) {
  return {{ints_at(call, 1), tensor_at(call, 0).scalar_type()}};
}
/// Takes (rows, columns, offset, dtype, ...). Returns the indices below or above the diagonal.
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

/// Takes (self, ..., output sizes), which gives the last dimensions.
template <std::size_t Sizes>
Shapes resized(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  std::vector<std::int64_t> sizes = t.sizes().vec();
  const auto last = ints_at(call, Sizes);
  std::copy(last.begin(), last.end(), sizes.end() - std::ssize(last));
  return {suggested(t, sizes, t.scalar_type())};
}
/// Takes (self, padding), which has two numbers for each of the last dimensions, from the last on.
Shapes padded(const OperatorCall& call);
/// Takes (self, kernel, stride, padding, dilation, ceil_mode). Returns the maxima and their
/// indices.
Shapes max_pool3d(const OperatorCall& call);
/// Takes (input, grid, ...). The grid has a place in the input for each element of the result.
Shapes grid_sampler(const OperatorCall& call);
/// Takes (gradient, input, grid, ..., mask). The second gradient is always computed.
Shapes grid_sampler_backward(const OperatorCall& call);
/// Takes (self, kernel, dilation, padding, stride). Returns a column for each place of the window.
Shapes im2col(const OperatorCall& call);
/// Takes (self, output sizes, kernel, ...).
Shapes col2im(const OperatorCall& call);
/// Takes (self, factor). Blocks of channels become blocks of pixels, or, with `Back`, the
/// other way round.
template <bool Back>
Shapes pixel_shuffle(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  const std::int64_t factor = int_at(call, 1);
  std::vector<std::int64_t> sizes = t.sizes().vec();
  const std::size_t n = sizes.size();
  sizes[n - 3] = Back ? sizes[n - 3] * factor * factor : sizes[n - 3] / (factor * factor);
  for (const std::size_t i : {n - 2, n - 1})
    sizes[i] = Back ? sizes[i] / factor : sizes[i] * factor;
  return {{sizes, t.scalar_type()}};
}

/// Takes (self, B, upper, left, ...).
Shapes solve_triangular(const OperatorCall& call);
/// Takes (x1, x2, p, mode). Returns a distance for each pair of rows.
Shapes cdist(const OperatorCall& call);
/// Takes (gradient, x1, x2, p, distances).
Shapes cdist_backward(const OperatorCall& call);
/// Takes (self, p).
Shapes pdist(const OperatorCall& call);
/// Takes (self, dims, normalization, onesided).
Shapes fft_of_real(const OperatorCall& call);
/// Takes (self, dims, normalization, last size).
Shapes fft_to_real(const OperatorCall& call);
/// Takes (self, batch1, batch2, ...). Returns one matrix, the sum of products.
Shapes addbmm(const OperatorCall& call);
/// Takes (self, vector, vector, ...).
Shapes addr(const OperatorCall& call);
/// Takes (self, mat2). Returns 32-bit sums of 8-bit integers.
inline Shapes int_mm(const OperatorCall& call) {
  return {{{tensor_at(call, 0).size(0), tensor_at(call, 1).size(1)}, at::kInt}};
}
/// Takes (self, mat2, scales of both, bias, scale of the result, out_dtype, ...).
Shapes scaled_mm(const OperatorCall& call);
/// Takes (v, g, dim). Returns the weight, and the norms, which are FP32 for BF16.
Shapes weight_norm(const OperatorCall& call);

/// Takes (input, normalized_shape, weight, bias, eps). Returns the result, mean and rstd.
Shapes layer_norm(const OperatorCall& call);
/// Takes (gradient, input, normalized_shape, mean, rstd, weight, bias, mask).
inline Shapes layer_norm_backward(const OperatorCall& call) { return like_masked<1, 5, 6>(call); }

/// Takes (input, weight, bias, running_mean, running_var, training, ...). Returns the result and
/// what is saved.
template <std::size_t Training>
Shapes batch_norm(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const bool training = bool_at(call, Training);
  const auto type = weight.defined() ? weight.scalar_type() : input.scalar_type();
  const Shape saved{{training ? input.size(1) : 0}, type};
  return {Shape::like(input), saved, saved};
}
/// Takes (gradient, input, weight, ..., mask).
Shapes batch_norm_backward(const OperatorCall& call);
/// Takes (input, weight, bias, N, C, HxW, groups, eps). Returns the result, mean and rstd.
Shapes group_norm(const OperatorCall& call);
/// Takes (gradient, input, mean, rstd, weight, N, C, HxW, groups, mask).
Shapes group_norm_backward(const OperatorCall& call);

/// Takes (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
Shapes convolution(const OperatorCall& call);
/// Takes (gradient, input, weight, bias_sizes, ..., mask).
Shapes convolution_backward(const OperatorCall& call);

/// Takes (query, key, value, ...). Returns the result, and a number for each query.
Shapes cpu_attention(const OperatorCall& call);
/// Takes (gradient, query, key, value, ...).
Shapes cpu_attention_backward(const OperatorCall& call);
/// Takes (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
/// include_last_offset, padding_idx).
Shapes embedding_bag(const OperatorCall& call);
/// Takes (gradient, indices, offset2bag, bag_size, max_indices, number of weights, ...).
Shapes embedding_bag_dense_backward(const OperatorCall& call);
/// Takes (gradient, weight, indices, ...).
inline Shapes embedding_bag_weights_backward(const OperatorCall& call) {
  return {{{tensor_at(call, 2).numel()}, tensor_at(call, 0).scalar_type()}};
}
/// Returns the bytes from one row of a matrix to the next in oneDNN's memory.
std::int64_t padded_row(std::int64_t elements, std::size_t itemsize);
/// Takes (input, w0..w3, hx, cx, reverse, batch_sizes, mode, hidden_size, ..., train). Computes one
/// layer in one direction. The last result is oneDNN's workspace, in whole pages: gates and outputs
/// of each step, the states of both sides of the layer, and their gradients.
Shapes rnn_layer(const OperatorCall& call);
/// Takes (input, w0..w3, hx, cx, ...). Returns the gradients of the first seven, in FP32.
Shapes rnn_layer_backward(const OperatorCall& call);
/// Takes (gradient, indices, number of weights, ...).
Shapes embedding_dense_backward(const OperatorCall& call);

// The rules, by the names of the operators with their overloads.
inline constexpr NamedShapeRule elementwise_shape_rules[] = {
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
    {"aten::where.self", &where},
    {"aten::complex", &complex},
    {"aten::polar", &complex},
};
inline constexpr NamedShapeRule other_shape_rules[] = {
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
inline constexpr NamedShapeRule image_shape_rules[] = {
    {"aten::_adaptive_avg_pool2d", &resized<1>},
    {"aten::_adaptive_avg_pool2d_backward", &like_suggested<1>},
    {"aten::_adaptive_avg_pool3d", &resized<1>},
    {"aten::_adaptive_avg_pool3d_backward", &like<1>},
    {"aten::max_pool3d_with_indices", &max_pool3d},
    {"aten::max_pool3d_with_indices_backward", &like_suggested<1>},
    {"aten::fractional_max_pool3d_backward", &like<1>},
    {"aten::max_unpool2d", &resized<2>},
    {"aten::max_unpool3d", &resized<2>},
    {"aten::reflection_pad2d", &padded},
    {"aten::reflection_pad2d_backward", &like_suggested<1>},
    {"aten::replication_pad2d_backward", &like_suggested<1>},
    {"aten::replication_pad3d_backward", &like_suggested<1>},
    {"aten::grid_sampler_2d", &grid_sampler},
    {"aten::grid_sampler_2d_backward", &grid_sampler_backward},
    {"aten::grid_sampler_3d", &grid_sampler},
    {"aten::grid_sampler_3d_backward", &grid_sampler_backward},
    {"aten::im2col", &im2col},
    {"aten::col2im", &col2im},
    {"aten::channel_shuffle", &like<0>},
    {"aten::native_channel_shuffle", &like<0>},
    {"aten::pixel_shuffle", &pixel_shuffle<false>},
    {"aten::pixel_unshuffle", &pixel_shuffle<true>},
};
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
inline constexpr NamedShapeRule layer_shape_rules[] = {
    {"aten::embedding_dense_backward", &embedding_dense_backward},
    {"aten::_embedding_bag", &embedding_bag},
    {"aten::_embedding_bag_forward_only", &embedding_bag},
    {"aten::_embedding_bag_dense_backward", &embedding_bag_dense_backward},
    {"aten::_embedding_bag_per_sample_weights_backward", &embedding_bag_weights_backward},
    {"aten::native_layer_norm", &layer_norm},
    {"aten::native_layer_norm_backward", &layer_norm_backward},
    {"aten::native_batch_norm", &batch_norm<5>},
    {"aten::_native_batch_norm_legit", &batch_norm<5>},
    {"aten::_native_batch_norm_legit.no_stats", &batch_norm<3>},
    {"aten::native_batch_norm_backward", &batch_norm_backward},
    {"aten::native_group_norm", &group_norm},
    {"aten::native_group_norm_backward", &group_norm_backward},
    {"aten::convolution", &convolution},
    {"aten::convolution_backward", &convolution_backward},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", &cpu_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", &cpu_attention_backward},
    {"aten::mkldnn_rnn_layer", &rnn_layer},
    {"aten::mkldnn_rnn_layer_backward", &rnn_layer_backward},
};

}  // namespace detail

/// Returns the rule of an operator, such as `aten::where.self`; null if it has no rule.
ShapeRule shape_rule(std::string_view name);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/shape_rules.ipp>
#endif
