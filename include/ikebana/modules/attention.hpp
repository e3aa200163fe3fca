#pragma once
// Defines modules::attention: scaled dot product attention, in its fastest exact form.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <ikebana/modules/document_offsets.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail {

/// Returns the result of scaled_dot_product_attention with zeros for each query to which the mask
/// (bool, or added to the scores) leaves no key. LibTorch's kernels return zeros there, except
/// cuDNN's, for tensors of 16 bits on some GPUs, which returns the mean of all values.
at::Tensor zeros_without_keys(const at::Tensor& result, const at::Tensor& mask);

}  // namespace ikebana::detail

namespace ikebana::modules {

/// The form in which attention is computed. All forms are exact; they differ by roundings in the
/// inputs' dtype.
enum class AttentionForm {
  Fastest,   ///< chosen by shape, dtype and device
  Fused,     ///< LibTorch's scaled_dot_product_attention
  Composed,  ///< matrix products and a softmax; can be differentiated twice
  Widened,   ///< half precision is computed in FP32, by the fastest form for FP32
  Chunked,   ///< a few queries at a time, recomputed in backward; memory linear in the lengths
};

/// Returns the name of a form, in lower case.
const char* name(AttentionForm form);

}  // namespace ikebana::modules

namespace ikebana::detail {

// Thresholds of the choice on the CPU, measured by bench/attention; docs/bench.md has the table.
//
// LibTorch calls oneDNN for half precision products of more multiplications than this, which costs
// about ten microseconds per call; the fused backward makes five such calls for every 32 queries of
// a head.
inline constexpr std::int64_t cheap_product = 16 * 16 * 16;
// Up to this many multiplications in all heads, or in one head, the calls of oneDNN cost more than
// computing in FP32.
inline constexpr std::int64_t widened_work = 3 << 19;
inline constexpr std::int64_t widened_product = 4 * cheap_product;
// Up to this many queries and keys, one batched product for all heads is faster than the fused
// backward. With more, the fused form is faster because it skips masked keys and uses less memory:
// on processors with AMX at once, on others gradually.
inline constexpr std::int64_t composed_length = 512;
// If no fused kernel supports the call, attention weights of more bytes than this are not kept.
inline constexpr std::int64_t composed_bytes = 256 << 20;

/// The values on which the choice depends. A recompute has the same values, so it chooses the same
/// form.
struct AttentionShape {
  c10::DeviceType device;
  at::ScalarType dtype;
  std::int64_t heads, queries, keys,
      width;              // heads of the whole batch; T; S; the larger of E and Ev
  bool training;          // a backward may follow
  bool has_fused_kernel;  // LibTorch does not compose it from operators
  bool composable;        // ComposedAttention supports it
  bool wide;              // products of 16 bits are computed in FP32
};

modules::AttentionForm fastest_form(const AttentionShape& s);

}  // namespace ikebana::detail

namespace ikebana::modules {

/// The options of scaled_dot_product_attention, with its names, and the form.
struct AttentionOptions {
  /// The mask is Bool (true: the key takes part), or has any floating dtype and is added to the
  /// scores, with a gradient if it requires one. It must be broadcastable to (..., H, T, S).
  std::optional<at::Tensor> attn_mask{};
  double dropout_p = 0;  ///< the share of the weights that are set to 0, in [0, 1)
  /// Query t attends to the keys 0 to t. It cannot be combined with a mask.
  bool is_causal = false;
  std::optional<double> scale{};  ///< 1 / sqrt(E) if not given; finite, may be 0 or below
  /// Key and value have fewer heads than the query; several query heads share each of them.
  bool enable_gqa = false;
  /// Query, key and value hold documents of these lengths one after the other, in the dimension of
  /// T and S: each attends to itself alone. A Ragged, or the positions of their begins and the end.
  DocumentOffsets offsets{};
  AttentionForm form = AttentionForm::Fastest;  ///< the form in which it is computed
};

}  // namespace ikebana::modules

namespace ikebana::detail {

/// The checked arguments of one call: cast as by autocast, broadcast, in four dimensions.
class AttentionCall {
 public:
  AttentionCall(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                const modules::AttentionOptions& o);

  modules::AttentionForm form() const;

  at::Tensor run() const;

 private:
  static at::Tensor as_autocast(const at::Tensor& x);

  void check_tensors() const;

  void check_options() const;

  void check_sizes() const;

  // Returns the sizes before the last two, which are equal or 1, broadcast as by matmul. Grouped
  // heads are not broadcast. Also sets the sizes of the result.
  std::vector<std::int64_t> broadcast_sizes();

  // Expands all but the last `unchanged` sizes to `sizes`, and flattens to four dimensions.
  static void expand(at::Tensor& x, std::vector<std::int64_t> sizes, std::size_t unchanged);

  // Converts the mask to a dtype that LibTorch's kernels read correctly beside the query's: the
  // kernel of a CPU reads an FP32 mask beside FP64 as if it were FP64, and kernels of a device need
  // the query's dtype. On a CPU FP32 is kept beside half precision, in which -1e9 would be
  // infinite.
  void convert_mask(at::Tensor& mask) const;

  void align_mask(at::Tensor& mask) const;

  AttentionShape shape() const;

  at::Tensor fused() const;

  at::Tensor composed() const;

  at::Tensor chunked() const;

  double scale() const;

  at::Tensor widened() const;

  static std::string text(at::IntArrayRef sizes) { return c10::str(sizes); }
  [[noreturn]] void refuse(const std::string& why) const;

  at::Tensor query_, key_, value_;
  modules::AttentionOptions options_;
  std::vector<std::int64_t> result_;  // (..., H, T, Ev)
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// Returns softmax(query key^T * scale + mask) value, which is scaled_dot_product_attention in its
/// fastest exact form. Takes query (..., H, T, E), key (..., H, S, E) and value (..., H, S, Ev).
/// The result is (..., H, T, Ev), in their dtype, or autocast's. A row whose keys are all masked
/// gives zeros. Rounding errors are at most about twice LibTorch's. The cost depends on the form:
/// Composed keeps H * T * S weights for backward, Widened keeps copies in FP32, Chunked computes
/// the weights twice and does not keep them. A second derivative needs Composed, because the fused
/// kernels do not have one. Throws Error if sizes, dtypes, devices or options do not fit. With
/// `offsets` each document has the bits that it has alone on a CPU; memory is linear in the tokens,
/// and each document costs a call. In a packed batch (a Ragged) of a trainer, a call over all
/// tokens without `offsets` throws Error. Source: Vaswani et al., Attention Is All You Need, 2017.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options = {});

/// Returns the form that `attention` uses for these arguments. It depends on whether gradients are
/// enabled.
AttentionForm attention_form(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const AttentionOptions& options = {});

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/attention.ipp>
#endif
