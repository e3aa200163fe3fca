#pragma once
// Memory that kernels of the CPU allocate for themselves and free again, as it was measured:
// oneDNN's copies in a layout of its own, copies of tensors that are not contiguous or of another
// dtype.
#include <ikebana/fake/convolution_scratch.hpp>

namespace ikebana::bridge {

namespace detail {

template <std::size_t... I>
std::int64_t copies(const OperatorCall& call) {
  return (copy_bytes(tensor_at(call, I)) + ... + 0);
}
/// (gradient, input, ...).
std::int64_t batch_norm_backward_scratch(const OperatorCall& call);
/// The weights in oneDNN's layout; and the gates of all steps, but in a forward of 16 bits.
std::int64_t rnn_scratch(const OperatorCall& call);
std::int64_t rnn_backward_scratch(const OperatorCall& call);
/// Element-wise operators copy arguments of another dtype than that in which they compute.
std::int64_t converted(const OperatorCall& call);

/// Sums in BF16 are made in an FP32 copy of the tensor.
std::int64_t in_float(const OperatorCall& call);

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
ScratchRule scratch_rule(const c10::OperatorName& name);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/scratch_rules.ipp>
#endif
