#pragma once
// Computes the memory that kernels of the CPU allocate for themselves and free again, if a training
// may have its peak then. oneDNN copies to a layout of its own for the gradients of a convolution
// and for a recurrent layer. The memory of other kernels is not counted, such as that of a
// convolution in FP64, because no training that was measured has its peak there.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge {

namespace detail {

/// Takes (gradient, input, weight, bias sizes, stride, padding, dilation, transposed,
/// output_padding, groups, mask of the gradients that are wanted).
std::int64_t convolution_backward_scratch(const OperatorCall& call);
/// Returns the weights in oneDNN's layout, and, except in a forward of 16 bits, the gates of all
/// steps.
std::int64_t rnn_scratch(const OperatorCall& call);
std::int64_t rnn_backward_scratch(const OperatorCall& call);

using ScratchRule = std::int64_t (*)(const OperatorCall&);
inline constexpr std::pair<std::string_view, ScratchRule> scratch_rules[] = {
    {"aten::convolution_backward", &convolution_backward_scratch},
    {"aten::mkldnn_rnn_layer", &rnn_scratch},
    {"aten::mkldnn_rnn_layer_backward", &rnn_backward_scratch},
};

}  // namespace detail

using detail::ScratchRule;
/// Returns the rule for the bytes that the CPU's kernel of an operator allocates besides its
/// results, or null if no bytes are counted.
ScratchRule scratch_rule(const c10::OperatorName& name);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/scratch_rules.ipp>
#endif
