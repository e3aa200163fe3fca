#pragma once
// The shapes that the operators of layers return: normalisation, convolution, attention, embedding,
// recurrent layers.
#include <array>
#include <ikebana/bridge/algebra_shape_rules.hpp>
#include <ikebana/bridge/image_shape_rules.hpp>
#include <ikebana/bridge/reduction_shape_rules.hpp>
#include <ikebana/bridge/shape_rules.hpp>
#include <span>

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
template <std::size_t Training>
Shapes batch_norm(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const bool training = bool_at(call, Training);
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
/// (input, weight, bias, N, C, HxW, groups, eps): the result, mean and rstd.
inline Shapes group_norm(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const bool mixed = weight.defined() && weight.scalar_type() == at::kFloat;
  const Shape saved{{int_at(call, 3), int_at(call, 6)}, mixed ? at::kFloat : input.scalar_type()};
  return {Shape::like(input), saved, saved};
}
/// (gradient, input, mean, rstd, weight, N, C, HxW, groups, mask).
inline Shapes group_norm_backward(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 1);
  const auto mask = call.arguments().back().toBoolList();
  const Shape channels{{call.arguments()[6].toInt()}, input.scalar_type()};
  return {mask.get(0) ? Shape::like(input) : Shape::none(), mask.get(1) ? channels : Shape::none(),
          mask.get(2) ? channels : Shape::none()};
}

/// Channels last where the input or the weight is; rows are images of one line.
inline Shape as_convolved(const Shape& shape, const OperatorCall& call, std::size_t input) {
  at::MemoryFormat format = at::MemoryFormat::Contiguous;
  const bool rows = shape.sizes.size() == 3;
  for (const std::size_t i : {input, input + 1}) {
    at::Tensor t = meta_at(call, i);
    if (rows) t = t.unsqueeze(2);
    if (format == at::MemoryFormat::Contiguous) format = t.suggest_memory_format();
  }
  std::vector<std::int64_t> sizes = shape.sizes;
  if (rows) sizes.insert(sizes.begin() + 2, 1);
  const auto options = at::TensorOptions(at::kMeta).dtype(shape.type);
  const at::Tensor made = at::empty(sizes, options.memory_format(format));
  return Shape::of(rows ? made.squeeze(2) : made);
}
/// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
inline Shapes convolution(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const auto stride = ints_at(call, 3), padding = ints_at(call, 4), dilation = ints_at(call, 5),
             more = ints_at(call, 7);
  const bool transposed = call.arguments()[6].toBool();
  std::vector<std::int64_t> sizes = {
      input.size(0), transposed ? weight.size(1) * call.arguments()[8].toInt() : weight.size(0)};
  for (std::size_t i = 0; i + 2 < static_cast<std::size_t>(input.dim()); ++i) {
    const auto dim = static_cast<std::int64_t>(i) + 2;
    const std::int64_t window = of_dim(dilation, i) * (weight.size(dim) - 1),
                       from = input.size(dim);
    sizes.push_back(transposed
                        ? (from - 1) * of_dim(stride, i) - 2 * of_dim(padding, i) + window +
                              of_dim(more, i) + 1
                        : (from + 2 * of_dim(padding, i) - window - 1) / of_dim(stride, i) + 1);
  }
  return {as_convolved({sizes, input.scalar_type()}, call, 0)};
}
/// (gradient, input, weight, bias_sizes, ..., mask).
inline Shapes convolution_backward(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  const auto mask = call.arguments().back().toBoolList();
  const bool transposed = call.arguments()[7].toBool();
  const std::int64_t channels = transposed
                                    ? tensor_at(call, 2).size(1) * call.arguments()[9].toInt()
                                    : tensor_at(call, 2).size(0);
  const Shape bias{{channels}, gradient.scalar_type()};
  Shapes all = like<1, 2>(call);
  for (const std::size_t i : {0U, 1U})
    all[i] = mask.get(i) ? as_convolved(all[i], call, 1) : Shape::none();
  all.push_back(mask.get(2) ? bias : Shape::none());
  return all;
}
/// (rows, heads, length, width), in memory (rows, length, heads, width).
inline Shape heads_inside(const at::Tensor& t) {
  const std::int64_t heads = t.size(1), length = t.size(2), width = t.size(3);
  return {.sizes = t.sizes().vec(),
          .type = t.scalar_type(),
          .strides = {length * heads * width, width, heads * width, 1}};
}
/// (query, key, value, ...): the result, and a number for each query.
inline Shapes cpu_attention(const OperatorCall& call) {
  const at::Tensor query = tensor_at(call, 0);
  const std::int64_t heads = query.size(1), length = query.size(2);
  return {dense<0>(call)[0],
          {.sizes = {query.size(0), heads, length},
           .type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat,
           .strides = {length * heads, 1, heads}}};
}
/// (gradient, query, key, value, ...).
inline Shapes cpu_attention_backward(const OperatorCall& call) {
  return {heads_inside(tensor_at(call, 1)), heads_inside(tensor_at(call, 2)),
          heads_inside(tensor_at(call, 3))};
}
/// (weight, indices, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
/// include_last_offset, padding_idx).
inline Shapes embedding_bag(const OperatorCall& call) {
  const at::Tensor weight = tensor_at(call, 0), indices = tensor_at(call, 1),
                   offsets = tensor_at(call, 2);
  const std::int64_t mode = call.arguments()[4].toInt();
  const std::int64_t bags = offsets.size(0) - (call.arguments()[7].toBool() ? 1 : 0);
  const bool is_max = mode == 2, keeps = mode != 0 || int_at(call, 8) >= 0 || weight.stride(1) != 1;
  const std::int64_t number = keeps ? indices.size(0) : 0;
  return {{{bags, weight.size(1)}, weight.scalar_type()},
          {.sizes = {number},
           .type = indices.scalar_type(),
           .bytes = keeps ? (number + 1) * static_cast<std::int64_t>(indices.itemsize()) : 0},
          {.sizes = {bags},
           .type = indices.scalar_type(),
           .bytes = offsets.size(0) * static_cast<std::int64_t>(indices.itemsize())},
          is_max ? Shape{{bags, weight.size(1)}, indices.scalar_type()}
                 : Shape{{bags}, indices.scalar_type()}};
}
/// (gradient, indices, offset2bag, bag_size, max_indices, number of weights, ...).
inline Shapes embedding_bag_dense_backward(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  return {{{call.arguments()[5].toInt(), gradient.size(1)}, gradient.scalar_type()}};
}
/// (gradient, weight, indices, ...).
inline Shapes embedding_bag_weights_backward(const OperatorCall& call) {
  return {{{tensor_at(call, 2).numel()}, tensor_at(call, 0).scalar_type()}};
}
/// The bytes from one row of a matrix to the next in oneDNN's memory.
inline std::int64_t padded_row(std::int64_t elements, std::size_t itemsize) {
  const auto line = static_cast<std::int64_t>(64 / itemsize);
  const std::int64_t row = (elements + line - 1) / line * line;
  return (row % 256 == 0 ? row + line : row) * static_cast<std::int64_t>(itemsize);
}
/// (input, w0..w3, hx, cx, reverse, batch_sizes, mode, hidden_size, ..., train): one layer, one
/// direction. The last result is oneDNN's workspace, in whole pages: gates and outputs of each
/// step, the states of both sides of the layer, and their gradients.
inline Shapes rnn_layer(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0);
  const std::int64_t hidden = int_at(call, 10), widest = std::max(hidden, input.size(2));
  const std::int64_t of_steps = input.size(0) * input.size(1),
                     states = 2 * (of_steps + input.size(1));
  const std::size_t own = input.itemsize();
  auto pages = [](std::int64_t rows, std::int64_t row) {
    return (rows * row + 4095) / 4096 * 4096;
  };
  const std::int64_t workspace =
      pages(of_steps, padded_row(tensor_at(call, 1).size(0), own)) +
      pages(of_steps, padded_row(hidden, own)) + pages(states, padded_row(widest, own)) +
      pages(states, padded_row(hidden, own)) + pages(states, padded_row(hidden, sizeof(float))) +
      2 * pages(states, 4 * widest);
  return {{{input.size(0), input.size(1), hidden}, input.scalar_type()},
          Shape::like(tensor_at(call, 5)),
          Shape::like(tensor_at(call, 6)),
          {{bool_at(call, 15) ? workspace : 0}, at::kByte}};
}
/// (input, w0..w3, hx, cx, ...): the gradients of the first seven, in FP32.
inline Shapes rnn_layer_backward(const OperatorCall& call) {
  Shapes all = like<0, 1, 2, 3, 3, 5, 6>(call);
  for (Shape& shape : all) shape.type = at::kFloat;
  return all;
}
/// (gradient, indices, number of weights, ...).
inline Shapes embedding_dense_backward(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  return {{{call.arguments()[2].toInt(), gradient.size(-1)}, gradient.scalar_type()}};
}
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
inline ShapeRule shape_rule(std::string_view name) {
  const std::span<const NamedShapeRule> tables[] = {
      detail::shape_rules,           detail::more_shape_rules,  detail::loss_shape_rules,
      detail::reduction_shape_rules, detail::image_shape_rules, detail::algebra_shape_rules,
      detail::layer_shape_rules};
  for (const auto& table : tables)
    for (const auto& [known, rule] : table)
      if (known == name) return rule;
  return nullptr;
}

}  // namespace ikebana::bridge
