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
const char* name(AttentionForm form);

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

modules::AttentionForm fastest_form(const AttentionShape& s);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/attention_form.ipp>
#endif
