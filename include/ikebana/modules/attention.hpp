#pragma once
// modules::attention: scaled dot product attention, in its fastest exact form.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <ikebana/modules/attention_form.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::modules {

/// The options of scaled_dot_product_attention, with its names, and the form.
struct AttentionOptions {
  /// Bool (true: the key takes part), or of any floating dtype and added to the scores, with a
  /// gradient if it requires one; broadcastable to (..., H, T, S).
  std::optional<at::Tensor> attn_mask{};
  double dropout_p = 0;  ///< share of the weights that are set to 0, in [0, 1)
  /// Query t attends to the keys 0 to t. Cannot be combined with a mask.
  bool is_causal = false;
  std::optional<double> scale{};  ///< 1 / sqrt(E) when not given; finite, may be 0 or below
  /// Key and value have fewer heads than the query; several query heads share each of them.
  bool enable_gqa = false;
  AttentionForm form = AttentionForm::Fastest;  ///< how it is computed
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

  // The sizes before the last two, broadcast as by matmul: equal or 1. Grouped heads are not
  // broadcast. Also sets the sizes of the result.
  std::vector<std::int64_t> broadcast_sizes();

  // Expands all but the last `unchanged` sizes to `sizes`, and flattens to four dimensions.
  static void expand(at::Tensor& x, std::vector<std::int64_t> sizes, std::size_t unchanged);

  // To a dtype that LibTorch's kernels read rightly beside the query's: that of a CPU reads an FP32
  // mask beside FP64 as if it were FP64, and those of a device need the query's. On a CPU FP32 is
  // kept beside half precision, in which -1e9 would be infinite.
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

/// softmax(query key^T * scale + mask) value: scaled_dot_product_attention in its fastest exact
/// form. query (..., H, T, E), key (..., H, S, E) and value (..., H, S, Ev) give (..., H, T, Ev),
/// in their dtype, or autocast's. A row whose keys are all masked gives zeros. Rounding errors are
/// at most about twice LibTorch's. Cost depends on the form: Composed keeps H * T * S weights for
/// backward, Widened keeps copies in FP32, Chunked computes the weights twice and keeps none. A
/// second derivative needs Composed: the fused kernels have none. Throws Error if sizes, dtypes,
/// devices or options do not fit. Source: Vaswani et al., Attention Is All You Need, 2017.
at::Tensor attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const AttentionOptions& options = {});

/// The form that `attention` uses for these arguments; depends on whether gradients are enabled.
AttentionForm attention_form(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const AttentionOptions& options = {});

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/attention.ipp>
#endif
