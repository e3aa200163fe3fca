#pragma once
// The memory that kernels of the CPU allocate for themselves and free again, as it was measured:
// oneDNN's copies in a layout of its own, and copies of tensors that are not contiguous or of
// another dtype. The kernel of a convolution depends on the dtype, the sizes and the processor:
// oneDNN has no Double, and 16 bits only if the processor computes with them.
#include <ikebana/bridge/operators.hpp>
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge::detail {

std::int64_t bytes_of(const at::Tensor& t);
std::int64_t copy_bytes(const at::Tensor& t);

/// The arguments that a convolution and its backward share, from the input on: (input, weight, bias
/// or its sizes, stride, padding, dilation, transposed, output_padding, groups).
class Convolution {
 public:
  const at::Tensor input, weight;

  Convolution(const OperatorCall& call, std::size_t first)
      : input(tensor_at(call, first)),
        weight(tensor_at(call, first + 1)),
        call_(call),
        first_(first) {}
  bool transposed() const { return call_.arguments()[first_ + 6].toBool(); }
  std::int64_t groups() const { return int_at(call_, first_ + 8); }
  bool is_strided() const { return any(3, 1); }
  /// True if oneDNN computes it, in a layout of its own. Rows count as images of one line.
  bool by_onednn() const;
  /// The bytes of the columns by which it becomes a product of matrices, if oneDNN does not compute
  /// it: columns of all rows; of one row, if it is transposed or dilated; 0, if they are views.
  /// `result`: the sizes of the result.
  std::int64_t column_bytes(at::IntArrayRef result) const;

  bool is_dilated() const { return any(5, 1); }
  bool is_of_points() const { return c10::multiply_integers(weight.sizes().slice(2)) == 1; }
  /// True if oneDNN has no kernel of its own for the weight's gradient: with AVX2, if the kernel is
  /// dilated or higher than `image` (the input, or the result if it is transposed), or if groups
  /// are too narrow. This was not seen with AVX-512.
  bool sums_columns(const at::Tensor& image) const;
  /// The bytes if `sums_columns`: the gradient is a product of matrices, and each thread has
  /// columns of one row, and room for four sums.
  std::int64_t summed_columns(const at::Tensor& pixels) const;

 private:
  bool any(std::size_t argument, std::int64_t more_than) const;
  std::vector<c10::SymInt> symbolic(std::size_t argument, std::int64_t of_line) const;

  const OperatorCall& call_;
  std::size_t first_;
};

/// The scratch memory of a convolution. oneDNN copies the arguments to its layout, and the result
/// back. Other kernels compute one group after the other, and join their results.
std::int64_t convolution_scratch(const OperatorCall& call);

/// (gradient, input, ..., mask of the gradients that are wanted). Without oneDNN a gradient of 16
/// bits is summed over rows in an FP32 copy.
std::int64_t convolution_backward_scratch(const OperatorCall& call);

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

namespace detail {

template <std::size_t... I>
std::int64_t copies(const OperatorCall& call) {
  return (copy_bytes(tensor_at(call, I)) + ... + 0);
}
/// (gradient, input, ...).
std::int64_t batch_norm_backward_scratch(const OperatorCall& call);
/// The weights in oneDNN's layout, and, except in a forward of 16 bits, the gates of all steps.
std::int64_t rnn_scratch(const OperatorCall& call);
std::int64_t rnn_backward_scratch(const OperatorCall& call);
/// Element-wise operators copy arguments whose dtype is not the one in which they compute.
std::int64_t converted(const OperatorCall& call);

/// Kernels that sum in BF16 make an FP32 copy of the tensor.
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
/// The rule for the bytes that the CPU's kernel of an operator allocates besides its results. Null
/// if it allocates nothing, or only a few bytes.
ScratchRule scratch_rule(const c10::OperatorName& name);

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/scratch_rules.ipp>
#endif
