#pragma once
// Defines rules that choose the operators whose outputs a selective checkpoint keeps.
#include <ikebana/bridge/custom_operator.hpp>
#include <string_view>

namespace ikebana {

/// Returns true for the operators whose outputs `Checkpoint<Selective>` keeps. It may look at the
/// operator's name, schema and arguments.
using OperatorRule = std::function<bool(const bridge::OperatorCall&)>;

namespace detail {
/// Operators below autograd, where `linear` is `mm` or `addmm`, and attention is one of its kernels
/// or a form of modules::attention.
inline constexpr std::string_view costly_operators[] = {
    "aten::mm",
    "aten::addmm",
    "aten::bmm",
    "aten::baddbmm",
    "aten::addbmm",
    "aten::mv",
    "aten::addmv",
    "aten::_scaled_mm",
    "aten::_grouped_mm",
    "aten::_scaled_grouped_mm",
    "aten::convolution",
    "aten::convolution_overrideable",
    "aten::_scaled_dot_product_flash_attention",
    "aten::_scaled_dot_product_flash_attention_for_cpu",
    "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention",
    "aten::_scaled_dot_product_fused_attention_overrideable",
    "aten::_flash_attention_forward",
    "aten::_efficient_attention_forward",
    "aten::_cudnn_rnn",
    "aten::mkldnn_rnn_layer",
    "ikebana::composed_attention",
    "ikebana::chunked_attention",
};
}  // namespace detail

/// Returns the default rule of `Checkpoint<Selective>`: matrix products, convolutions, attention
/// and recurrent layers, which take most of forward's time and the smaller part of its memory.
bool matrix_operators(const bridge::OperatorCall& call);

/// Returns a rule that keeps operators by name, in every overload: `operators({"aten::mm",
/// "aten::convolution"})`. Throws BadValue for a name that LibTorch does not have.
OperatorRule operators(std::vector<std::string> names);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/checkpoint/frame/impl/operator_rule.ipp>
#endif
