#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/image_shape_rules.hpp>

namespace ikebana::bridge::detail {

IKEBANA_INLINE Shape suggested(const at::Tensor& t, const std::vector<std::int64_t>& sizes,
                               at::ScalarType type) {
  const auto options = at::TensorOptions(at::kMeta).dtype(type);
  return Shape::of(at::empty(sizes, options.memory_format(t.suggest_memory_format())));
}

IKEBANA_INLINE Shapes padded(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  std::vector<std::int64_t> sizes = t.sizes().vec();
  const auto padding = ints_at(call, 1);
  for (std::size_t i = 0; i < padding.size(); ++i) sizes[sizes.size() - 1 - i / 2] += padding[i];
  return {suggested(t, sizes, t.scalar_type())};
}

IKEBANA_INLINE Shapes max_pool3d(const OperatorCall& call) {
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

IKEBANA_INLINE Shapes grid_sampler(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), grid = tensor_at(call, 1);
  std::vector<std::int64_t> sizes = {input.size(0), input.size(1)};
  for (std::int64_t d = 1; d + 1 < grid.dim(); ++d) sizes.push_back(grid.size(d));
  return {{sizes, input.scalar_type()}};
}

IKEBANA_INLINE Shapes grid_sampler_backward(const OperatorCall& call) {
  Shapes all = like<1, 2>(call);
  if (!call.arguments().back().toBoolList().get(0)) all[0] = Shape::none();
  return all;
}

IKEBANA_INLINE Shapes im2col(const OperatorCall& call) {
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

IKEBANA_INLINE Shapes col2im(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  const auto kernel = ints_at(call, 2), last = ints_at(call, 1);
  std::vector<std::int64_t> sizes(t.sizes().begin(), t.sizes().end() - 2);
  sizes.insert(sizes.end(),
               {t.size(-2) / (of_dim(kernel, 0) * of_dim(kernel, 1)), last[0], last[1]});
  const auto memory = t.numel() * static_cast<std::int64_t>(t.itemsize());  // made for all columns
  return {{.sizes = sizes, .type = t.scalar_type(), .bytes = memory}};
}

}  // namespace ikebana::bridge::detail
