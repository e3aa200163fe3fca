#pragma once
// The shapes that the operators of layers return: normalisation, convolution, attention, embedding,
// recurrent layers.
#include <ikebana/bridge/shape_rules.hpp>

namespace ikebana::bridge {
namespace detail {

/// (input, normalized_shape, weight, bias, eps): the result, mean and rstd.
inline Shapes layer_norm(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 2);
  std::vector<std::int64_t> sizes = input.sizes().vec();
  for (std::size_t i = sizes.size() - ints_at(call, 1).size(); i < sizes.size(); ++i) sizes[i] = 1;
  const bool mixed = weight.defined() && weight.scalar_type() == at::kFloat;
  const auto type = mixed ? at::kFloat : input.scalar_type();
  return {Shape::like(input), {sizes, type}, {sizes, type}};
}
/// (gradient, input, normalized_shape, mean, rstd, weight, bias, mask).
inline Shapes layer_norm_backward(const OperatorCall& call) { return like_masked<1, 5, 6>(call); }

/// (input, weight, bias, running_mean, running_var, training, ...): the result and what is saved.
inline Shapes batch_norm(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const bool training = call.arguments()[5].isBool() && call.arguments()[5].toBool();
  const auto type = weight.defined() ? weight.scalar_type() : input.scalar_type();
  const Shape saved{{training ? input.size(1) : 0}, type};
  return {Shape::like(input), saved, saved};
}
/// (gradient, input, weight, ..., mask).
inline Shapes batch_norm_backward(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 1), weight = tensor_at(call, 2);
  const auto mask = call.arguments().back().toBoolList();
  const Shape channels{{input.size(1)},
                       weight.defined() ? weight.scalar_type() : input.scalar_type()};
  return {mask.get(0) ? Shape::like(input) : Shape::none(), mask.get(1) ? channels : Shape::none(),
          mask.get(2) ? channels : Shape::none()};
}
/// (gradient, input, mean, rstd, weight, N, C, HxW, groups, mask).
inline Shapes group_norm_backward(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 1);
  const auto mask = call.arguments().back().toBoolList();
  const Shape channels{{call.arguments()[6].toInt()}, input.scalar_type()};
  return {mask.get(0) ? Shape::like(input) : Shape::none(), mask.get(1) ? channels : Shape::none(),
          mask.get(2) ? channels : Shape::none()};
}

/// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
inline Shapes convolution(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const auto stride = ints_at(call, 3), padding = ints_at(call, 4), dilation = ints_at(call, 5),
             more = ints_at(call, 7);
  const bool transposed = call.arguments()[6].toBool();
  auto at = [](const std::vector<std::int64_t>& list, std::size_t i) {
    return list.size() == 1 ? list[0] : list.at(i);
  };
  std::vector<std::int64_t> sizes = {
      input.size(0), transposed ? weight.size(1) * call.arguments()[8].toInt() : weight.size(0)};
  for (std::size_t i = 0; i + 2 < static_cast<std::size_t>(input.dim()); ++i) {
    const auto dim = static_cast<std::int64_t>(i) + 2;
    const std::int64_t window = at(dilation, i) * (weight.size(dim) - 1), from = input.size(dim);
    sizes.push_back(transposed
                        ? (from - 1) * at(stride, i) - 2 * at(padding, i) + window + at(more, i) + 1
                        : (from + 2 * at(padding, i) - window - 1) / at(stride, i) + 1);
  }
  return {{sizes, input.scalar_type()}};
}
/// (gradient, input, weight, bias_sizes, ..., mask).
inline Shapes convolution_backward(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  const auto mask = call.arguments().back().toBoolList();
  const bool transposed = call.arguments()[7].toBool();
  const std::int64_t channels = transposed
                                    ? tensor_at(call, 2).size(1) * call.arguments()[9].toInt()
                                    : tensor_at(call, 2).size(0);
  return {mask.get(0) ? Shape::like(tensor_at(call, 1)) : Shape::none(),
          mask.get(1) ? Shape::like(tensor_at(call, 2)) : Shape::none(),
          mask.get(2) ? Shape{{channels}, gradient.scalar_type()} : Shape::none()};
}
/// (rows, heads, length, width), in memory (rows, length, heads, width).
inline Shape heads_inside(const at::Tensor& t, std::int64_t width) {
  const std::int64_t rows = t.size(0), heads = t.size(1), length = t.size(2);
  return {.sizes = {rows, heads, length, width},
          .type = t.scalar_type(),
          .strides = {length * heads * width, width, heads * width, 1}};
}
/// (query, key, value, ...): the result, and a number for each query.
inline Shapes cpu_attention(const OperatorCall& call) {
  const at::Tensor query = tensor_at(call, 0);
  const auto type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return {heads_inside(query, tensor_at(call, 2).size(3)),
          {{query.size(0), query.size(1), query.size(2)}, type}};
}
/// (gradient, query, key, value, ...).
inline Shapes cpu_attention_backward(const OperatorCall& call) {
  Shapes all;
  for (std::size_t i = 1; i <= 3; ++i) {
    const at::Tensor t = tensor_at(call, i);
    all.push_back(heads_inside(t, t.size(3)));
  }
  return all;
}
/// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
/// include_last_offset, padding_idx).
inline Shapes embedding_bag(const OperatorCall& call) {
  const at::Tensor weight = tensor_at(call, 0), indices = tensor_at(call, 1),
                   offsets = tensor_at(call, 2);
  const std::int64_t mode = call.arguments()[4].toInt();
  const std::int64_t bags = offsets.size(0) - (call.arguments()[7].toBool() ? 1 : 0);
  const bool is_max = mode == 2, keeps = mode != 0 || call.arguments()[8].toInt() >= 0;
  const std::int64_t number = keeps ? indices.size(0) : 0;
  return {{{bags, weight.size(1)}, weight.scalar_type()},
          {{number}, indices.scalar_type()},
          {{bags}, indices.scalar_type()},
          is_max ? Shape{{bags, weight.size(1)}, indices.scalar_type()}
                 : Shape{{bags}, indices.scalar_type()}};
}
/// (gradient, indices, offset2bag, bag_size, max_indices, number of weights, ...).
inline Shapes embedding_bag_dense_backward(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  return {{{call.arguments()[5].toInt(), gradient.size(1)}, gradient.scalar_type()}};
}
/// (self, output sizes): pooling whose last dimensions are given.
inline Shapes resized(const OperatorCall& call) {
  Shape shape = Shape::like(tensor_at(call, 0));
  const auto last = ints_at(call, 1);
  std::copy(last.begin(), last.end(), shape.sizes.end() - std::ssize(last));
  return {shape};
}
/// (self, padding): two numbers for each of the last dimensions, from the last on.
inline Shapes padded(const OperatorCall& call) {
  Shape shape = Shape::like(tensor_at(call, 0));
  const auto padding = ints_at(call, 1);
  for (std::size_t i = 0; i < padding.size(); ++i)
    shape.sizes[shape.sizes.size() - 1 - i / 2] += padding[i];
  return {shape};
}
/// The bytes from one row of a matrix to the next in oneDNN's memory.
inline std::int64_t padded_row(std::int64_t elements, std::size_t itemsize) {
  const auto line = static_cast<std::int64_t>(64 / itemsize);
  const std::int64_t row = (elements + line - 1) / line * line;
  return (row % 256 == 0 ? row + line : row) * static_cast<std::int64_t>(itemsize);
}
/// (input, w0..w3, hx, cx, reverse, batch_sizes, mode, hidden_size, ...): one layer, one direction.
/// The last result is oneDNN's workspace, whose parts were found by measuring.
inline Shapes rnn_layer(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const std::int64_t steps = input.size(0), rows = input.size(1);
  const std::int64_t hidden = call.arguments()[10].toInt(), gates = weight.size(0);
  const std::size_t own = input.itemsize(), wide = sizeof(float);
  const std::int64_t states = 2 * padded_row(hidden, wide) + 5 * padded_row(hidden, own);
  const std::int64_t of_step = padded_row(gates, wide) + padded_row(gates, own);
  return {{{steps, rows, hidden}, input.scalar_type()},
          Shape::like(tensor_at(call, 5)),
          Shape::like(tensor_at(call, 6)),
          {{rows * ((steps + 1) * states + steps * of_step)}, at::kByte}};
}
/// (input, w0..w3, hx, cx, ...): the gradients of the first seven.
inline Shapes rnn_layer_backward(const OperatorCall& call) {
  return {Shape::like(tensor_at(call, 0)), Shape::like(tensor_at(call, 1)),
          Shape::like(tensor_at(call, 2)), Shape::like(tensor_at(call, 3)),
          Shape::like(tensor_at(call, 3)), Shape::like(tensor_at(call, 5)),
          Shape::like(tensor_at(call, 6))};
}
/// (gradient, indices, number of weights, ...).
inline Shapes embedding_dense_backward(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  return {{{call.arguments()[2].toInt(), gradient.size(-1)}, gradient.scalar_type()}};
}
/// (self, target, weight, reduction, ignore_index): the loss, and the sum of the weights.
inline Shapes nll_loss2d(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0);
  const bool each = call.arguments()[3].toInt() == no_reduction;
  return {
      {each ? tensor_at(call, 1).sizes().vec() : std::vector<std::int64_t>(), input.scalar_type()},
      {{}, input.scalar_type()}};
}

/// By the name of the operator, without its overload.
inline constexpr std::pair<std::string_view, ShapeRule> layer_shape_rules[] = {
    {"aten::nll_loss2d_forward", &nll_loss2d},
    {"aten::embedding_dense_backward", &embedding_dense_backward},
    {"aten::_embedding_bag", &embedding_bag},
    {"aten::_embedding_bag_forward_only", &embedding_bag},
    {"aten::_embedding_bag_dense_backward", &embedding_bag_dense_backward},
    {"aten::native_layer_norm", &layer_norm},
    {"aten::native_layer_norm_backward", &layer_norm_backward},
    {"aten::native_batch_norm", &batch_norm},
    {"aten::_native_batch_norm_legit", &batch_norm},
    {"aten::native_batch_norm_backward", &batch_norm_backward},
    {"aten::native_group_norm_backward", &group_norm_backward},
    {"aten::convolution", &convolution},
    {"aten::convolution_backward", &convolution_backward},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", &cpu_attention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", &cpu_attention_backward},
    {"aten::_adaptive_avg_pool2d", &resized},
    {"aten::reflection_pad2d", &padded},
    {"aten::mkldnn_rnn_layer", &rnn_layer},
    {"aten::mkldnn_rnn_layer_backward", &rnn_layer_backward},
};

}  // namespace detail

/// The rule of an operator; null where there is none.
inline ShapeRule shape_rule(const c10::OperatorName& name) {
  constexpr std::string_view overloads[] = {"",           "self",    "Tensor",
                                            "correction", "dim_int", "Scalar"};
  if (std::find(std::begin(overloads), std::end(overloads), name.overload_name) ==
      std::end(overloads))
    return nullptr;
  for (const auto& [known, rule] : detail::shape_rules)
    if (known == name.name) return rule;
  for (const auto& [known, rule] : detail::reduction_shape_rules)
    if (known == name.name) return rule;
  for (const auto& [known, rule] : detail::layer_shape_rules)
    if (known == name.name) return rule;
  return nullptr;
}

}  // namespace ikebana::bridge
