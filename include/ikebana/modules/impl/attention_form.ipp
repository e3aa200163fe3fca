#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/attention_form.hpp>

namespace ikebana::modules {

IKEBANA_INLINE const char* name(AttentionForm form) {
  switch (form) {
    case AttentionForm::Fused:
      return "fused";
    case AttentionForm::Composed:
      return "composed";
    case AttentionForm::Widened:
      return "widened";
    case AttentionForm::Chunked:
      return "chunked";
    default:
      return "fastest";
  }
}

}  // namespace ikebana::modules

namespace ikebana::detail {

IKEBANA_INLINE modules::AttentionForm fastest_form(const AttentionShape& s) {
  using Form = modules::AttentionForm;
  if (s.device != c10::kCPU || !s.composable) return Form::Fused;
  const auto product = s.queries * s.keys * s.width;
  const bool costly = product > cheap_product && (s.training || !s.has_fused_kernel);
  // There is no fast CPU kernel for FP16, neither for forward nor for backward; the backward that
  // there is rounds the weights of large scores to FP16. Where products are computed in FP32 they
  // cost what those of FP32 do.
  const bool is_half = s.dtype == at::kHalf && !s.wide;
  if (is_half && (s.training || product > cheap_product)) return Form::Widened;
  const bool is_bf16 = s.dtype == at::kBFloat16 && !s.wide;
  const bool small = s.heads * product <= widened_work || product <= widened_product;
  if (is_bf16 && costly && small) return Form::Widened;
  const auto scores = 4 * s.heads * s.queries * s.keys;
  if (!s.has_fused_kernel) return scores > composed_bytes ? Form::Chunked : Form::Composed;
  const bool is_short = s.queries <= composed_length && s.keys <= composed_length;
  return is_bf16 && costly && is_short ? Form::Composed : Form::Fused;
}

}  // namespace ikebana::detail
