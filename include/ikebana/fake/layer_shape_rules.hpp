#pragma once
// The shapes that the operators of layers return: normalisation, convolution, attention, embedding,
// recurrent layers.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge {
namespace detail {

/// (input, normalized_shape, weight, bias, eps): the result, mean and rstd.
Shapes layer_norm(const OperatorCall& call);
/// (gradient, input, normalized_shape, mean, rstd, weight, bias, mask).
inline Shapes layer_norm_backward(const OperatorCall& call) { return like_masked<1, 5, 6>(call); }

/// (input, weight, bias, running_mean, running_var, training, ...): the result and what is saved.
template <std::size_t Training>
Shapes batch_norm(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const bool training = bool_at(call, Training);
  const auto type = weight.defined() ? weight.scalar_type() : input.scalar_type();
  const Shape saved{{training ? input.size(1) : 0}, type};
  return {Shape::like(input), saved, saved};
}
/// (gradient, input, weight, ..., mask).
Shapes batch_norm_backward(const OperatorCall& call);
/// (input, weight, bias, N, C, HxW, groups, eps): the result, mean and rstd.
Shapes group_norm(const OperatorCall& call);
/// (gradient, input, mean, rstd, weight, N, C, HxW, groups, mask).
Shapes group_norm_backward(const OperatorCall& call);

/// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
Shapes convolution(const OperatorCall& call);
/// (gradient, input, weight, bias_sizes, ..., mask).
Shapes convolution_backward(const OperatorCall& call);

/// (query, key, value, ...): the result, and a number for each query.
Shapes cpu_attention(const OperatorCall& call);
/// (gradient, query, key, value, ...).
Shapes cpu_attention_backward(const OperatorCall& call);
/// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
/// include_last_offset, padding_idx).
Shapes embedding_bag(const OperatorCall& call);
/// (gradient, indices, offset2bag, bag_size, max_indices, number of weights, ...).
Shapes embedding_bag_dense_backward(const OperatorCall& call);
/// (gradient, weight, indices, ...).
Shapes embedding_bag_weights_backward(const OperatorCall& call);
/// The bytes from one row of a matrix to the next in oneDNN's memory.
std::int64_t padded_row(std::int64_t elements, std::size_t itemsize);
/// (input, w0..w3, hx, cx, reverse, batch_sizes, mode, hidden_size, ..., train): one layer, one
/// direction. The last result is oneDNN's workspace, in whole pages: gates and outputs of each
/// step, the states of both sides of the layer, and their gradients.
Shapes rnn_layer(const OperatorCall& call);
/// (input, w0..w3, hx, cx, ...): the gradients of the first seven, in FP32.
Shapes rnn_layer_backward(const OperatorCall& call);
/// (gradient, indices, number of weights, ...).
Shapes embedding_dense_backward(const OperatorCall& call);
/// By the name of the operator, with its overload.
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

/// The rule of an operator, such as `aten::where.self`; null where there is none.
ShapeRule shape_rule(std::string_view name);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/layer_shape_rules.ipp>
#endif
