#pragma once
#include <cstdint>

#include <ikebana/detail/torch.hpp>

namespace ikebana::modules {

/// How an attention is computed. All are exact; they differ by roundings of the inputs' type.
enum class AttentionForm {
  Fastest,   // let shape, type and device choose
  Fused,     // LibTorch's scaled_dot_product_attention
  Composed,  // matrix products and a softmax; can be differentiated twice
  Widened,   // half precision in single precision, by that type's fastest form
  Chunked,   // a few queries at a time, again in backward; memory linear in the lengths
};

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

// Thresholds of the choice on CPU; bench/attention measures them, docs/modules.md has the table.
//
// From this many multiplications on oneDNN takes half precision products, at about ten microseconds
// a call; the fused backward makes five such calls for every 32 queries of every head.
inline constexpr std::int64_t cheap_product = 16 * 16 * 16;
// Up to this many in all heads, or in one, the price of the calls is above single precision's.
inline constexpr std::int64_t widened_work = 3 << 19;
inline constexpr std::int64_t widened_product = 4 * cheap_product;
// Up to this many queries and keys, one batched product for all heads beats the fused backward.
// Beyond, skipped keys and memory decide: with AMX at once, on other processors by degrees.
inline constexpr std::int64_t composed_length = 512;
// Weights and scores of more bytes than this are not kept where no fused kernel spares them.
inline constexpr std::int64_t composed_bytes = 256 << 20;

/// All that the choice looks at, so that a recompute chooses as its forward did.
struct AttentionShape {
  c10::DeviceType device;
  at::ScalarType type;
  std::int64_t heads, queries, keys, width;  // of the whole batch; T; S; the larger of E and Ev
  bool training;                             // a backward may come
  bool has_kernel;                           // fused in LibTorch, not its own composition
  bool composable;                           // by ComposedAttention
};

inline modules::AttentionForm fastest_form(const AttentionShape& s) {
  using Form = modules::AttentionForm;
  if (s.device != c10::kCPU || !s.composable) return Form::Fused;
  const auto product = s.queries * s.keys * s.width;
  const bool costly = product > cheap_product && (s.training || !s.has_kernel);
  // No kernel for FP16 is at home here, forward or backward.
  if (s.type == at::kHalf && product > cheap_product) return Form::Widened;
  const bool bfloat = s.type == at::kBFloat16;
  const bool small = s.heads * product <= widened_work || product <= widened_product;
  if (bfloat && costly && small) return Form::Widened;
  const auto scores = 4 * s.heads * s.queries * s.keys;
  if (!s.has_kernel) return scores > composed_bytes ? Form::Chunked : Form::Composed;
  const bool is_short = s.queries <= composed_length && s.keys <= composed_length;
  return bfloat && costly && is_short ? Form::Composed : Form::Fused;
}

}  // namespace ikebana::detail
