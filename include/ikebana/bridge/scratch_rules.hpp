#pragma once
// Memory that kernels of the CPU allocate for themselves and free again, as it was measured:
// oneDNN's copies in a layout of its own, copies of tensors that are not contiguous or of another
// dtype.
#include <ikebana/bridge/convolution_scratch.hpp>

namespace ikebana::bridge {

namespace detail {

template <std::size_t... I>
std::int64_t copies(const OperatorCall& call) {
  return (copy_bytes(tensor_at(call, I)) + ... + 0);
}
/// (gradient, input, ...).
inline std::int64_t batch_norm_backward_scratch(const OperatorCall& call) {
  return bytes_of(tensor_at(call, 1));
}
/// The weights in oneDNN's layout; and the gates of all steps, but in a forward of 16 bits.
inline std::int64_t rnn_scratch(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const std::int64_t weights = bytes_of(weight) + bytes_of(tensor_at(call, 2));
  if (input.itemsize() == 2) return weights;
  return weights + input.size(0) * input.size(1) * padded_row(weight.size(0), input.itemsize());
}
inline std::int64_t rnn_backward_scratch(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const std::int64_t weights = bytes_of(weight) + bytes_of(tensor_at(call, 2));
  if (input.itemsize() == 2) return 3 * weights + 3 * bytes_of(input);
  return 2 * weights + input.size(0) * input.size(1) * padded_row(weight.size(0), input.itemsize());
}
/// Element-wise operators copy arguments of another dtype than that in which they compute.
inline std::int64_t converted(const OperatorCall& call) {
  std::optional<at::ScalarType> type;
  ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) {
    if (t.dim() > 0) type = type ? c10::promoteTypes(*type, t.scalar_type()) : t.scalar_type();
  });
  std::int64_t bytes = 0;
  ikebana::detail::visit_all(call.arguments(), [&](const at::Tensor& t) {
    if (t.dim() > 0 && t.scalar_type() != *type)
      bytes += t.numel() * static_cast<std::int64_t>(c10::elementSize(*type));
  });
  return bytes;
}

/// Sums in BF16 are made in an FP32 copy of the tensor.
inline std::int64_t in_float(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return c10::isReducedFloatingType(t.scalar_type()) ? t.numel() * 4 : 0;
}

using ScratchRule = std::int64_t (*)(const OperatorCall&);
inline constexpr std::pair<std::string_view, ScratchRule> scratch_rules[] = {
    {"aten::convolution", &convolution_scratch},
    {"aten::convolution_backward", &convolution_backward_scratch},
    {"aten::native_batch_norm_backward", &batch_norm_backward_scratch},
    {"aten::mkldnn_rnn_layer", &rnn_scratch},
    {"aten::mkldnn_rnn_layer_backward", &rnn_backward_scratch},
    {"aten::native_layer_norm", &copies<0>},
    {"aten::native_layer_norm_backward", &copies<0, 1>},
    {"aten::embedding_dense_backward", &copies<0, 1>},
    {"aten::index_add", &in_float},
    {"aten::index_add_", &in_float},
    {"aten::scatter_add", &in_float},
    {"aten::scatter_add_", &in_float},
    {"aten::_softmax", &copies<0>},
    {"aten::_log_softmax", &copies<0>},
    {"aten::index_select", &copies<0>},
    {"aten::adaptive_max_pool2d", &copies<0>},
    {"aten::avg_pool2d", &copies<0>},
    {"aten::max_pool2d_with_indices", &copies<0>},
    {"aten::pixel_shuffle", &copies<0>},
    {"aten::pixel_unshuffle", &copies<0>},
    {"aten::add", &converted},
    {"aten::add_", &converted},
    {"aten::sub", &converted},
    {"aten::mul", &converted},
    {"aten::mul_", &converted},
    {"aten::div", &converted},
};

}  // namespace detail

using detail::ScratchRule;
/// How many bytes a kernel of the CPU allocates besides its results; null: none, or a few.
inline ScratchRule scratch_rule(const c10::OperatorName& name) {
  for (const auto& [known, rule] : detail::scratch_rules)
    if (known == name.name) return rule;
  return nullptr;
}

}  // namespace ikebana::bridge
