#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/fake/scratch_rules.hpp>
#include <ikebana/fake/shape_rules.hpp>
#include <ikebana/posix/processor.hpp>

namespace ikebana::bridge::detail {

inline std::int64_t bytes_of(const at::Tensor& t) {
  return t.defined() ? t.numel() * static_cast<std::int64_t>(t.itemsize()) : 0;
}

/// Returns true if oneDNN computes the gradients. Rows count as images of one line.
inline bool by_onednn(const OperatorCall& call) {
  using at::native::ConvBackend;
  const at::Tensor input = tensor_at(call, 1), weight = tensor_at(call, 2);
  const bool rows = input.dim() == 3;
  auto image = [&](const at::Tensor& t) { return rows ? t.unsqueeze(2) : t; };
  auto numbers = [&](std::size_t argument, std::int64_t of_line) {
    const auto given = ints_at(call, argument);
    std::vector<c10::SymInt> all(given.begin(), given.end());
    if (rows) all.insert(all.begin(), of_line);
    return all;
  };
  const ConvBackend backend = at::native::select_conv_backend(
      image(input), image(weight), {}, numbers(4, 1), numbers(5, 0), numbers(6, 1),
      call.arguments()[7].toBool(), numbers(8, 0), int_at(call, 9), {});
  return backend == ConvBackend::Mkldnn || backend == ConvBackend::MkldnnTranspose;
}

inline bool any_above_one(const std::vector<std::int64_t>& numbers) {
  return std::any_of(numbers.begin(), numbers.end(), [](std::int64_t n) { return n > 1; });
}

/// True if oneDNN has no kernel of its own for the weight's gradient, as it was measured: if groups
/// of FP32 are narrow, or the kernel is dilated, or higher than `image` (the input, or the result
/// of a transposed convolution). With AVX-512 only some of the dilated and the higher ones have
/// none.
inline bool sums_columns(const OperatorCall& call, const at::Tensor& image) {
  const at::Tensor weight = tensor_at(call, 2);
  const std::int64_t groups = int_at(call, 9), outputs = weight.size(0) / groups;
  if (groups > 1 && outputs * weight.size(1) > 1 && weight.itemsize() == 4 &&
      (outputs % 8 != 0 || weight.size(1) % 8 != 0))
    return true;
  if (c10::multiply_integers(weight.sizes().slice(2)) == 1) return false;
  const auto dilation = ints_at(call, 6);
  const bool dilated = any_above_one(dilation), avx2 = !ikebana::detail::has_avx512_kernels();
  if (image.dim() == 3) return avx2 && dilated;
  const bool higher = of_dim(dilation, 0) * (weight.size(2) - 1) >= image.size(2);
  if (image.dim() == 5) return avx2 || dilated || higher;
  return avx2 ? dilated || higher : dilated && (higher || any_above_one(ints_at(call, 4)));
}

/// The bytes for the weight's gradient if `sums_columns`: it is a product of matrices. Each thread
/// has the columns of one row, and room for four sums; 16 bits need room for four more. One thread
/// computes large images. `pixels`: the result, or the input of a transposed convolution.
inline std::int64_t summed_columns(const OperatorCall& call, const at::Tensor& pixels) {
  const at::Tensor weight = tensor_at(call, 2);
  const std::int64_t image = c10::multiply_integers(pixels.sizes().slice(pixels.dim() < 5 ? 2 : 3)),
                     columns = bytes_of(weight) / weight.size(0) * image,
                     all = at::get_num_threads(), threads = image / all < 256 ? all : 1,
                     sums = 4 * (threads + (weight.itemsize() == 2 ? 1 : 0));
  return (1 + sums) * bytes_of(weight) + threads * columns;
}

/// True if oneDNN reads and writes rows in the order of channels_last as they are, as was measured
/// of FP16 on a processor that has instructions for it.
inline bool keeps_rows(const at::Tensor& x) {
  return x.dim() == 3 && x.scalar_type() == at::kHalf && !x.is_contiguous();
}

/// The input's gradient is computed first: its arguments in oneDNN's layout, then its result in
/// both layouts. The weight's gradient follows while that result is in use. oneDNN keeps the layout
/// of tensors of fewer than 8 channels, and sums 16 bits in FP32.
IKEBANA_INLINE std::int64_t convolution_backward_scratch(const OperatorCall& call) {
  if (!by_onednn(call)) return 0;
  const at::Tensor gradient = tensor_at(call, 0), x = tensor_at(call, 1);
  const bool transposed = call.arguments()[7].toBool(), strided = any_above_one(ints_at(call, 4));
  const c10::List<bool> wanted = call.arguments()[10].toBoolList();
  const std::int64_t input = bytes_of(x), weight = bytes_of(tensor_at(call, 2)),
                     copied = bytes_of(gradient), in = x.size(1) < 8 ? 0 : input,
                     sum = (x.itemsize() == 2 ? 3 : 2) * weight;
  if (keeps_rows(x)) return input + 2 * weight;
  std::int64_t peak = 0;
  if (wanted[0]) {
    const bool more = gradient.size(1) < 8 || (!transposed && strided);
    peak = std::max(copied + weight + input, more ? 3 * in : 2 * in);
  }
  if (wanted[1]) {
    const std::int64_t own = sums_columns(call, transposed ? gradient : x)
                                 ? summed_columns(call, transposed ? x : gradient)
                                 : std::max(in + copied + weight, sum);
    peak = std::max(peak, (wanted[0] ? input : 0) + own);
  }
  if (!gradient.is_contiguous()) peak += copied;
  const std::int64_t results = (wanted[0] ? input : 0) + (wanted[1] ? weight : 0);
  return std::max<std::int64_t>(0, peak - results);
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

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

IKEBANA_INLINE ScratchRule scratch_rule(const c10::OperatorName& name) {
  for (const auto& [known, rule] : detail::scratch_rules)
    if (known == name.name) return rule;
  return nullptr;
}

}  // namespace ikebana::bridge
