#pragma once
// The shapes that operators on images and volumes return: pooling, padding, sampling, columns.
#include <ikebana/fake/shape.hpp>

namespace ikebana::bridge::detail {

/// Laid out as the argument suggests: contiguous, or with channels last.
Shape suggested(const at::Tensor& t, const std::vector<std::int64_t>& sizes, at::ScalarType type);
template <std::size_t I>
Shapes like_suggested(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, I);
  return {suggested(t, t.sizes().vec(), t.scalar_type())};
}
/// (self, ..., output sizes): the last dimensions are given.
template <std::size_t Sizes>
Shapes resized(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  std::vector<std::int64_t> sizes = t.sizes().vec();
  const auto last = ints_at(call, Sizes);
  std::copy(last.begin(), last.end(), sizes.end() - std::ssize(last));
  return {suggested(t, sizes, t.scalar_type())};
}
/// (self, padding): two numbers for each of the last dimensions, from the last on.
Shapes padded(const OperatorCall& call);
/// (self, kernel, stride, padding, dilation, ceil_mode): the maxima and where they are.
Shapes max_pool3d(const OperatorCall& call);
/// (input, grid, ...): grid has a place in the input for each element of the result.
Shapes grid_sampler(const OperatorCall& call);
/// (gradient, input, grid, ..., mask). The second is always computed.
Shapes grid_sampler_backward(const OperatorCall& call);
/// (self, kernel, dilation, padding, stride): a column for each place of the window.
Shapes im2col(const OperatorCall& call);
/// (self, output sizes, kernel, ...).
Shapes col2im(const OperatorCall& call);
/// (self, factor): blocks of channels become blocks of pixels; or the other way round.
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

}  // namespace ikebana::bridge::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/image_shape_rules.ipp>
#endif
