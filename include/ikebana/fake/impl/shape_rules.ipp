#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/shape_rules.hpp>
#include <span>

namespace ikebana::bridge::detail {

IKEBANA_INLINE Shapes where(const OperatorCall& call) {
  const at::Tensor value = at::add(meta_at(call, 1), meta_at(call, 2));
  Shape shape = Shape::of(at::add(meta_at(call, 0), value));
  shape.type = value.scalar_type();
  return {shape};
}

IKEBANA_INLINE Shapes prelu_backward(const OperatorCall& call) {
  const Shape shape =
      Shape::of(at::add(at::add(meta_at(call, 0), meta_at(call, 1)), meta_at(call, 2)));
  return {shape, shape};
}

IKEBANA_INLINE Shapes complex(const OperatorCall& call) {
  Shapes all = binary<0, 1>(call);
  all[0].type = c10::toComplexType(all[0].type);
  return all;
}

IKEBANA_INLINE Shapes multinomial(const OperatorCall& call) {
  Shape shape{tensor_at(call, 0).sizes().vec(), at::kLong};
  shape.sizes.back() = int_at(call, 1);
  return {shape};
}

IKEBANA_INLINE Shapes multi_margin_loss(const OperatorCall& call) {
  const bool each = int_at(call, 5) == no_reduction;
  return {{each ? tensor_at(call, 1).sizes().vec() : std::vector<std::int64_t>(),
           tensor_at(call, 0).scalar_type()}};
}

IKEBANA_INLINE Shapes multilabel_margin_loss(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), target = tensor_at(call, 1);
  std::vector<std::int64_t> rows;
  if (int_at(call, 2) == no_reduction && target.dim() == 2) rows = {target.size(0)};
  return {{rows, input.scalar_type()}, {target.sizes().vec(), input.scalar_type()}};
}

IKEBANA_INLINE Shapes ctc_loss(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), targets = tensor_at(call, 1);
  const std::int64_t batch = input.size(1);
  std::int64_t steps = input.size(0), longest = targets.size(-1);
  if (call.arguments()[3].isIntList()) {
    const auto inputs = ints_at(call, 2), lengths = ints_at(call, 3);
    steps = *std::max_element(inputs.begin(), inputs.end());
    longest = *std::max_element(lengths.begin(), lengths.end());
  }
  return {{{batch}, input.scalar_type()}, {{batch, steps, 2 * longest + 1}, input.scalar_type()}};
}

IKEBANA_INLINE Shapes nll_loss2d(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0);
  const bool each = int_at(call, 3) == no_reduction;
  return {
      {each ? tensor_at(call, 1).sizes().vec() : std::vector<std::int64_t>(), input.scalar_type()},
      {{}, input.scalar_type()}};
}

IKEBANA_INLINE Shapes index_select(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape = Shape::like(t);
  const std::int64_t dim = at::maybe_wrap_dim(int_at(call, 1), t.dim());
  if (t.dim() > 0) shape.sizes[static_cast<std::size_t>(dim)] = tensor_at(call, 2).numel();
  return {shape};
}

IKEBANA_INLINE Shapes narrow_copy(const OperatorCall& call) {
  Shape shape = Shape::like(tensor_at(call, 0));
  const std::int64_t dim = at::maybe_wrap_dim(int_at(call, 1), std::ssize(shape.sizes));
  shape.sizes[static_cast<std::size_t>(dim)] = int_at(call, 3);
  return {shape};
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
  const auto memory = t.numel() * static_cast<std::int64_t>(
                                      t.itemsize());  // the kernel allocates it for all columns
  return {{.sizes = sizes, .type = t.scalar_type(), .bytes = memory}};
}

IKEBANA_INLINE Shapes solve_triangular(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 0), b = tensor_at(call, 1);
  const auto sizes = batched(a, b, b.size(-2), b.size(-1));
  return {columns(sizes, b.scalar_type())};
}

IKEBANA_INLINE Shapes cdist(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 0), b = tensor_at(call, 1);
  return {{batched(a, b, a.size(-2), b.size(-2)), a.scalar_type()}};
}

IKEBANA_INLINE Shapes cdist_backward(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 1);
  return {{batched(a, tensor_at(call, 2), a.size(-2), a.size(-1)), a.scalar_type()}};
}

IKEBANA_INLINE Shapes pdist(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return {{{t.size(0) * (t.size(0) - 1) / 2}, t.scalar_type()}};
}

IKEBANA_INLINE Shapes fft_of_real(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape{t.sizes().vec(), c10::toComplexType(t.scalar_type())};
  if (bool_at(call, 3)) {
    const std::int64_t last = at::maybe_wrap_dim(ints_at(call, 1).back(), t.dim());
    auto& size = shape.sizes[static_cast<std::size_t>(last)];
    size = size / 2 + 1;
  }
  return {shape};
}

IKEBANA_INLINE Shapes fft_to_real(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  Shape shape{t.sizes().vec(), c10::toRealValueType(t.scalar_type())};
  const std::int64_t last = at::maybe_wrap_dim(ints_at(call, 1).back(), t.dim());
  shape.sizes[static_cast<std::size_t>(last)] = int_at(call, 3);
  return {shape};
}

IKEBANA_INLINE Shapes addbmm(const OperatorCall& call) {
  const at::Tensor a = tensor_at(call, 1), b = tensor_at(call, 2);
  return {{{a.size(1), b.size(2)}, a.scalar_type()}};
}

IKEBANA_INLINE Shapes addr(const OperatorCall& call) {
  const at::Tensor outer = at::mul(meta_at(call, 1).unsqueeze(1), meta_at(call, 2));
  return {Shape::of(at::add(meta_at(call, 0), outer))};
}

IKEBANA_INLINE Shapes scaled_mm(const OperatorCall& call) {
  const c10::IValue& type = call.arguments()[6];
  return {{{tensor_at(call, 0).size(0), tensor_at(call, 1).size(1)},
           type.isNone() ? tensor_at(call, 0).scalar_type() : type.toScalarType()}};
}

IKEBANA_INLINE Shapes weight_norm(const OperatorCall& call) {
  const at::Tensor v = tensor_at(call, 0), g = tensor_at(call, 1);
  const auto type = g.scalar_type() == at::kBFloat16 ? at::kFloat : g.scalar_type();
  return {Shape::like(v), {g.sizes().vec(), type}};
}

IKEBANA_INLINE Shapes layer_norm(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 2);
  std::vector<std::int64_t> sizes = input.sizes().vec();
  for (std::size_t i = sizes.size() - ints_at(call, 1).size(); i < sizes.size(); ++i) sizes[i] = 1;
  const bool mixed = weight.defined() && weight.scalar_type() == at::kFloat;
  const auto type = mixed ? at::kFloat : input.scalar_type();
  return {Shape::like(input), {sizes, type}, {sizes, type}};
}

IKEBANA_INLINE Shapes batch_norm_backward(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 1), weight = tensor_at(call, 2);
  const auto mask = call.arguments().back().toBoolList();
  const Shape channels{{input.size(1)},
                       weight.defined() ? weight.scalar_type() : input.scalar_type()};
  return {mask.get(0) ? Shape::like(input) : Shape::none(), mask.get(1) ? channels : Shape::none(),
          mask.get(2) ? channels : Shape::none()};
}

IKEBANA_INLINE Shapes group_norm(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const bool mixed = weight.defined() && weight.scalar_type() == at::kFloat;
  const Shape saved{{int_at(call, 3), int_at(call, 6)}, mixed ? at::kFloat : input.scalar_type()};
  return {Shape::like(input), saved, saved};
}

IKEBANA_INLINE Shapes group_norm_backward(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 1);
  const auto mask = call.arguments().back().toBoolList();
  const Shape channels{{call.arguments()[6].toInt()}, input.scalar_type()};
  return {mask.get(0) ? Shape::like(input) : Shape::none(), mask.get(1) ? channels : Shape::none(),
          mask.get(2) ? channels : Shape::none()};
}

/// Gives a result the layout of a convolution: channels last if the input or the weight has it.
/// Rows count as images of one line.
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

IKEBANA_INLINE Shapes convolution(const OperatorCall& call) {
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

IKEBANA_INLINE Shapes convolution_backward(const OperatorCall& call) {
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

/// Returns the shape (rows, heads, length, width), which is (rows, length, heads, width) in memory.
inline Shape heads_inside(const at::Tensor& t) {
  const std::int64_t heads = t.size(1), length = t.size(2), width = t.size(3);
  return {.sizes = t.sizes().vec(),
          .type = t.scalar_type(),
          .strides = {length * heads * width, width, heads * width, 1}};
}

IKEBANA_INLINE Shapes cpu_attention(const OperatorCall& call) {
  const at::Tensor query = tensor_at(call, 0);
  const std::int64_t heads = query.size(1), length = query.size(2);
  return {dense<0>(call)[0],
          {.sizes = {query.size(0), heads, length},
           .type = query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat,
           .strides = {length * heads, 1, heads}}};
}

IKEBANA_INLINE Shapes cpu_attention_backward(const OperatorCall& call) {
  return {heads_inside(tensor_at(call, 1)), heads_inside(tensor_at(call, 2)),
          heads_inside(tensor_at(call, 3))};
}

IKEBANA_INLINE Shapes embedding_bag(const OperatorCall& call) {
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

IKEBANA_INLINE Shapes embedding_bag_dense_backward(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  return {{{call.arguments()[5].toInt(), gradient.size(1)}, gradient.scalar_type()}};
}

IKEBANA_INLINE std::int64_t padded_row(std::int64_t elements, std::size_t itemsize) {
  const auto line = static_cast<std::int64_t>(64 / itemsize);
  const std::int64_t row = (elements + line - 1) / line * line;
  return (row % 256 == 0 ? row + line : row) * static_cast<std::int64_t>(itemsize);
}

IKEBANA_INLINE Shapes rnn_layer(const OperatorCall& call) {
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

IKEBANA_INLINE Shapes rnn_layer_backward(const OperatorCall& call) {
  Shapes all = like<0, 1, 2, 3, 3, 5, 6>(call);
  for (Shape& shape : all) shape.type = at::kFloat;
  return all;
}

IKEBANA_INLINE Shapes embedding_dense_backward(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  return {{{call.arguments()[2].toInt(), gradient.size(-1)}, gradient.scalar_type()}};
}

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

IKEBANA_INLINE ShapeRule shape_rule(std::string_view name) {
  const std::span<const NamedShapeRule> tables[] = {
      detail::elementwise_shape_rules, detail::other_shape_rules, detail::loss_shape_rules,
      detail::reduction_shape_rules,   detail::image_shape_rules, detail::algebra_shape_rules,
      detail::layer_shape_rules};
  for (const auto& table : tables)
    for (const auto& [known, rule] : table)
      if (known == name) return rule;
  return nullptr;
}

}  // namespace ikebana::bridge
