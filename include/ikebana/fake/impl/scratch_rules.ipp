#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/fake/layer_shape_rules.hpp>
#include <ikebana/fake/scratch_rules.hpp>
#include <ikebana/posix/processor.hpp>

namespace ikebana::bridge::detail {

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
