#pragma once
// The shapes that operators on images and volumes return: pooling, padding, sampling, columns.
#include <ikebana/bridge/shape.hpp>

namespace ikebana::bridge::detail {

/// Laid out as the argument suggests: contiguous, or with channels last.
inline Shape suggested(const at::Tensor& t, const std::vector<std::int64_t>& sizes,
                       at::ScalarType type) {
  const auto options = at::TensorOptions(at::kMeta).dtype(type);
  return Shape::of(at::empty(sizes, options.memory_format(t.suggest_memory_format())));
}
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
inline Shapes padded(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  std::vector<std::int64_t> sizes = t.sizes().vec();
  const auto padding = ints_at(call, 1);
  for (std::size_t i = 0; i < padding.size(); ++i) sizes[sizes.size() - 1 - i / 2] += padding[i];
  return {suggested(t, sizes, t.scalar_type())};
}
/// (self, kernel, stride, padding, dilation, ceil_mode): the maxima and where they are.
inline Shapes max_pool3d(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  const auto kernel = ints_at(call, 1), padding = ints_at(call, 3), dilation = ints_at(call, 4);
  const auto stride = ints_at(call, 2).empty() ? kernel : ints_at(call, 2);
  const bool up = bool_at(call, 5);
  std::vector<std::int64_t> sizes = t.sizes().vec();
  for (std::size_t i = 0; i < 3; ++i) {
    std::int64_t& size = sizes[sizes.size() - 3 + i];
    const std::int64_t pad = of_dim(padding, i), step = of_dim(stride, i);
    const std::int64_t room = size + 2 * pad - of_dim(dilation, i) * (of_dim(kernel, i) - 1) - 1;
    std::int64_t windows = (room + (up ? step - 1 : 0)) / step + 1;
    if (up && (windows - 1) * step >= size + pad) --windows;
    size = windows;
  }
  return {suggested(t, sizes, t.scalar_type()), suggested(t, sizes, at::kLong)};
}
/// (input, grid, ...): grid has a place in the input for each element of the result.
inline Shapes grid_sampler(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), grid = tensor_at(call, 1);
  std::vector<std::int64_t> sizes = {input.size(0), input.size(1)};
  for (std::int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
  return {{sizes, input.scalar_type()}};
}
/// (gradient, input, grid, ..., mask). The second is always computed.
inline Shapes grid_sampler_backward(const OperatorCall& call) {
  Shapes all = like<1, 2>(call);
  if (!call.arguments().back().toBoolList().get(0)) all[0] = Shape::none();
  return all;
}
/// (self, kernel, dilation, padding, stride): a column for each place of the window.
inline Shapes im2col(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  const auto kernel = ints_at(call, 1), dilation = ints_at(call, 2), padding = ints_at(call, 3),
             stride = ints_at(call, 4);
  std::int64_t columns = 1, rows = t.size(-3);
  for (std::size_t i = 0; i < 2; ++i) {
    const std::int64_t size = t.size(static_cast<std::int64_t>(i) - 2);
    const std::int64_t room =
        size + 2 * of_dim(padding, i) - of_dim(dilation, i) * (of_dim(kernel, i) - 1) - 1;
    columns *= room / of_dim(stride, i) + 1;
    rows *= of_dim(kernel, i);
  }
  std::vector<std::int64_t> sizes(t.sizes().begin(), t.sizes().end() - 3);
  sizes.insert(sizes.end(), {rows, columns});
  return {{sizes, t.scalar_type()}};
}
/// (self, output sizes, kernel, ...).
inline Shapes col2im(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  const auto kernel = ints_at(call, 2), last = ints_at(call, 1);
  std::vector<std::int64_t> sizes(t.sizes().begin(), t.sizes().end() - 2);
  sizes.insert(sizes.end(),
               {t.size(-2) / (of_dim(kernel, 0) * of_dim(kernel, 1)), last[0], last[1]});
  const auto memory = t.numel() * static_cast<std::int64_t>(t.itemsize());  // made for all columns
  return {{.sizes = sizes, .type = t.scalar_type(), .bytes = memory}};
}
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
