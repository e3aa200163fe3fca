#pragma once
// The forms in which modules::attention is computed, and the choice between them.
#include <cstdint>

#include <ikebana/detail/torch.hpp>

namespace ikebana::modules {

/// How attention is computed. All forms are exact; they differ by roundings in the inputs' dtype.
enum class AttentionForm {
  Fastest,   ///< chosen by shape, dtype and device
  Fused,     ///< LibTorch's scaled_dot_product_attention
  Composed,  ///< matrix products and a softmax; can be differentiated twice
  Widened,   ///< half precision computed in FP32, by the fastest form for FP32
  Chunked,   ///< a few queries at a time, recomputed in backward; memory linear in the lengths
};

/// The name of a form, in lower case.
inline const char* name(AttentionForm form) {
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

// Thresholds of the choice on the CPU, measured by bench/attention; docs/modules.md has the table.
//
// Half precision products of more multiplications than this go to oneDNN, which costs about ten
// microseconds per call; the fused backward makes five such calls for every 32 queries of a head.
inline constexpr std::int64_t cheap_product = 16 * 16 * 16;
// Up to this many multiplications in all heads, or in one, those calls cost more than computing in
// FP32.
inline constexpr std::int64_t widened_work = 3 << 19;
inline constexpr std::int64_t widened_product = 4 * cheap_product;
// Up to this many queries and keys, one batched product for all heads is faster than the fused
// backward. Beyond, the fused form is faster because it skips masked keys and uses less memory: on
// processors with AMX at once, on others gradually.
inline constexpr std::int64_t composed_length = 512;
// If no fused kernel supports the call, attention weights of more bytes than this are not kept.
inline constexpr std::int64_t composed_bytes = 256 << 20;

/// All that the choice depends on. A recompute has the same values, so it chooses the same form.
struct AttentionShape {
  c10::DeviceType device;
  at::ScalarType dtype;
  std::int64_t heads, queries, keys, width;  // of the whole batch; T; S; the larger of E and Ev
  bool training;                             // a backward may follow
  bool has_fused_kernel;                     // LibTorch does not compose it from operators
  bool composable;                           // ComposedAttention supports it
  bool wide;                                 // products of 16 bits are computed in FP32
};

inline modules::AttentionForm fastest_form(const AttentionShape& s) {
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
