#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/fake/scratch_rules.hpp>
#include <ikebana/fake/shape_rules.hpp>

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

/// The input's gradient is computed first. It takes its arguments in oneDNN's layout, then its
/// result in both layouts. The weight's gradient follows while that result is in use. oneDNN keeps
/// the layout of tensors of fewer than 8 channels.
IKEBANA_INLINE std::int64_t convolution_backward_scratch(const OperatorCall& call) {
  if (!by_onednn(call)) return 0;
  const at::Tensor gradient = tensor_at(call, 0), x = tensor_at(call, 1);
  const auto strides = ints_at(call, 4);
  const bool strided = std::any_of(strides.begin(), strides.end(), [](auto n) { return n > 1; });
  const bool transposed = call.arguments()[7].toBool();
  const c10::List<bool> wanted = call.arguments()[10].toBoolList();
  const std::int64_t input = bytes_of(x), weight = bytes_of(tensor_at(call, 2)),
                     copied = bytes_of(gradient), in = x.size(1) < 8 ? 0 : input;
  std::int64_t peak = 0;
  if (wanted[0]) {
    const bool more = gradient.size(1) < 8 || (!transposed && strided);
    peak = std::max(copied + weight + input, more ? 3 * in : 2 * in);
  }
  if (wanted[1])
    peak = std::max(peak, (wanted[0] ? input : 0) + std::max(in + copied + weight, 2 * weight));
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
