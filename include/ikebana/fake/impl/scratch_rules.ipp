#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/fake/scratch_rules.hpp>
#include <ikebana/fake/shape_rules.hpp>
#include <ikebana/posix/processor.hpp>

namespace ikebana::bridge::detail {

IKEBANA_INLINE std::int64_t bytes_of(const at::Tensor& t) {
  return t.defined() ? t.numel() * static_cast<std::int64_t>(t.itemsize()) : 0;
}

IKEBANA_INLINE std::int64_t copy_bytes(const at::Tensor& t) {
  return t.defined() && !t.is_contiguous() ? bytes_of(t) : 0;
}

IKEBANA_INLINE bool Convolution::by_onednn() const {
  using at::native::ConvBackend;
  const bool rows = input.dim() == 3;
  auto image = [&](const at::Tensor& t) { return rows ? t.unsqueeze(2) : t; };
  const auto backend = at::native::select_conv_backend(
      image(input), image(weight), {}, symbolic(3, 1), symbolic(4, 0), symbolic(5, 1), transposed(),
      symbolic(7, 0), groups(), {});
  return backend == ConvBackend::Mkldnn || backend == ConvBackend::MkldnnTranspose;
}

IKEBANA_INLINE std::int64_t Convolution::column_bytes(at::IntArrayRef result) const {
  const at::IntArrayRef pixels = (transposed() ? input.sizes() : result).slice(2);
  const std::int64_t of_row = weight.numel() / weight.size(0) * c10::multiply_integers(pixels) *
                              static_cast<std::int64_t>(input.itemsize());
  if (transposed() || is_dilated()) return of_row;
  const bool is_view = is_of_points() && !any(3, 1) && !any(4, 0);
  return is_view ? 0 : of_row * input.size(0);
}

IKEBANA_INLINE bool Convolution::sums_columns(const at::Tensor& image) const {
  if (ikebana::detail::has_avx512_kernels()) return false;
  if (is_dilated()) return true;
  if (image.dim() == 4 && weight.size(2) > image.size(2)) return true;
  return groups() > 1 && weight.size(1) > 1 &&
         (weight.size(0) / groups() % 8 != 0 || weight.size(1) % 8 != 0);
}

IKEBANA_INLINE std::int64_t Convolution::summed_columns(const at::Tensor& pixels) const {
  const std::int64_t columns = weight.numel() / weight.size(0) *
                               c10::multiply_integers(pixels.sizes().slice(2)) *
                               static_cast<std::int64_t>(input.itemsize());
  return bytes_of(weight) + at::get_num_threads() * (4 * bytes_of(weight) + columns);
}

IKEBANA_INLINE bool Convolution::any(std::size_t argument, std::int64_t more_than) const {
  const auto numbers = ints_at(call_, first_ + argument);
  return std::any_of(numbers.begin(), numbers.end(), [&](std::int64_t n) { return n > more_than; });
}

IKEBANA_INLINE std::vector<c10::SymInt> Convolution::symbolic(std::size_t argument,
                                                              std::int64_t of_line) const {
  const auto numbers = ints_at(call_, first_ + argument);
  std::vector<c10::SymInt> all(numbers.begin(), numbers.end());
  if (input.dim() == 3) all.insert(all.begin(), of_line);
  return all;
}

/// The bytes of the copy that a kernel makes which computes in the layout of the tensor.
inline std::int64_t dense_copy_bytes(const at::Tensor& t) {
  return t.is_contiguous(t.suggest_memory_format()) ? 0 : bytes_of(t);
}

IKEBANA_INLINE std::int64_t convolution_scratch(const OperatorCall& call) {
  const Convolution c(call, 0);
  const std::vector<std::int64_t> sizes = convolution(call)[0].sizes;
  const std::int64_t result =
      c10::multiply_integers(sizes) * static_cast<std::int64_t>(c.input.itemsize());
  if (c.by_onednn()) {
    const bool twice = c.transposed() && !c.is_dilated() && !c.is_of_points();
    return std::max(bytes_of(c.input) + bytes_of(c.weight), twice ? 2 * result : result);
  }
  const std::int64_t columns = c.column_bytes(sizes) + dense_copy_bytes(c.input);
  if (c.transposed()) return std::max(result, columns);
  if (c.groups() == 1) return columns;
  return std::max(result, columns + bytes_of(c.input) / c.groups());
}

/// The most bytes that oneDNN needs for the gradients of the input and of the weight, both results
/// included. The input's gradient is computed first: its arguments in oneDNN's layout, then its
/// result in both layouts. The weight's gradient follows while that result is in use. oneDNN keeps
/// the layout of tensors of fewer than 8 channels.
inline std::int64_t onednn_backward_bytes(const Convolution& c, const at::Tensor& gradient,
                                          bool of_input, bool of_weight) {
  const std::int64_t input = bytes_of(c.input), weight = bytes_of(c.weight),
                     copied = bytes_of(gradient), in = c.input.size(1) < 8 ? 0 : input;
  std::int64_t peak = 0;
  if (of_input) {
    const bool more = gradient.size(1) < 8 || (!c.transposed() && c.is_strided());
    peak = std::max(copied + weight + input, more ? 3 * in : 2 * in);
  }
  if (of_weight) {
    const std::int64_t own = c.sums_columns(c.transposed() ? gradient : c.input)
                                 ? c.summed_columns(c.transposed() ? c.input : gradient)
                                 : std::max(in + copied + weight, 2 * weight);
    peak = std::max(peak, (of_input ? input : 0) + own);
  }
  return peak + copy_bytes(gradient);
}

IKEBANA_INLINE std::int64_t convolution_backward_scratch(const OperatorCall& call) {
  const at::Tensor gradient = tensor_at(call, 0);
  const Convolution c(call, 1);
  if (!c.by_onednn()) {
    const std::int64_t columns =
        c.column_bytes(gradient.sizes()) + dense_copy_bytes(c.input) + dense_copy_bytes(gradient);
    if (c.groups() > 1)
      return std::max(bytes_of(c.input),
                      columns + (bytes_of(c.input) + bytes_of(gradient)) / c.groups());
    return std::max(columns, gradient.itemsize() == 2 ? gradient.numel() * 4 : 0);
  }
  const c10::List<bool> wanted = call.arguments()[10].toBoolList();
  const std::int64_t results =
      (wanted[0] ? bytes_of(c.input) : 0) + (wanted[1] ? bytes_of(c.weight) : 0);
  const std::int64_t peak = onednn_backward_bytes(c, gradient, wanted[0], wanted[1]);
  return std::max<std::int64_t>(0, peak - results);
}

IKEBANA_INLINE std::int64_t batch_norm_backward_scratch(const OperatorCall& call) {
  return bytes_of(tensor_at(call, 1));
}

IKEBANA_INLINE std::int64_t rnn_scratch(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const std::int64_t weights = bytes_of(weight) + bytes_of(tensor_at(call, 2));
  if (input.itemsize() == 2) return weights;
  return weights + input.size(0) * input.size(1) * padded_row(weight.size(0), input.itemsize());
}

IKEBANA_INLINE std::int64_t rnn_backward_scratch(const OperatorCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1);
  const std::int64_t weights = bytes_of(weight) + bytes_of(tensor_at(call, 2));
  if (input.itemsize() == 2) return 3 * weights + 3 * bytes_of(input);
  return 2 * weights + input.size(0) * input.size(1) * padded_row(weight.size(0), input.itemsize());
}

IKEBANA_INLINE std::int64_t converted(const OperatorCall& call) {
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

IKEBANA_INLINE std::int64_t in_float(const OperatorCall& call) {
  const at::Tensor t = tensor_at(call, 0);
  return c10::isReducedFloatingType(t.scalar_type()) ? t.numel() * 4 : 0;
}

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

IKEBANA_INLINE ScratchRule scratch_rule(const c10::OperatorName& name) {
  for (const auto& [known, rule] : detail::scratch_rules)
    if (known == name.name) return rule;
  return nullptr;
}

}  // namespace ikebana::bridge
