#pragma once
// Defines AttentionForm::Composed, which computes attention as matrix products and a softmax.
#include <algorithm>
#include <cstdint>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/torch.hpp>
#include <optional>
#include <tuple>

namespace ikebana::detail {

/// Returns a mask as numbers to add to the scores, because `_scaled_dot_product_attention_math`
/// would add a Bool mask as 0 and 1.
std::optional<at::Tensor> added_mask(const std::optional<at::Tensor>& mask,
                                     const at::Tensor& query);

// The scores of as many heads as fit into each thread's second-level cache are computed together,
// so that passes over them stay in the cache, and no new pages are requested from the system.
inline constexpr std::int64_t attention_chunk_bytes = 1 << 20;

/// The sizes of one attention as a batch of matrices: the query heads that share a key head are
/// rows of one matrix, so that keys need not be repeated for grouped queries.
struct AttentionBatch {
  std::int64_t heads, rows, queries, keys;  // key heads; rows of one matrix; T; S
  std::int64_t chunk;                       // heads that are computed together

  AttentionBatch(const at::Tensor& query, const at::Tensor& key)
      : heads(key.size(0) * key.size(1)),
        rows(query.size(1) / key.size(1) * query.size(2)),
        queries(query.size(2)),
        keys(key.size(2)),
        chunk(std::clamp<std::int64_t>(
            attention_chunk_bytes * at::get_num_threads() / (rows * keys * 4), 1, heads)) {}

  at::Tensor matrices(const at::Tensor& x) const { return x.reshape({heads, -1, x.size(-1)}); }
  at::Tensor scores(std::int64_t count, const at::TensorOptions& options) const;
  /// Calls f(first, count) for the heads of each chunk.
  template <class F>
  void each_chunk(const F& f) const {
    for (std::int64_t i = 0; i < heads; i += chunk) f(i, std::min(chunk, heads - i));
  }
};

/// The masks of one attention: `bias` is added to the scores; `fully_masked` marks rows without any
/// key, whose weights are 0 as in LibTorch. Both are undefined, or (heads or 1, groups or 1, T or
/// 1, S or 1).
struct AttentionBias {
  at::Tensor bias, fully_masked;

  AttentionBias(const at::Tensor& query, const at::Tensor& key,
                const std::optional<at::Tensor>& mask, bool is_causal, at::ScalarType type);

  /// Replaces the scores of the heads from `first` on by weights, in place.
  void softmax_(at::Tensor& scores, std::int64_t first, std::int64_t queries) const;
};

/// Attention as matrix products and a softmax, with its own backward; has a second derivative.
/// Scores are computed in FP32 for half precision inputs, because rounding large scores to half
/// precision would lose many digits of the weights. Cost: H * T * S weights are kept for backward
/// in the inputs' dtype, with dropout one more byte for each. Autocast does not cast its products,
/// because they are out= operators.
///
/// query (B, H, T, E), key (B, G, S, E), value (B, G, S, Ev), H a multiple of G, nothing empty;
/// mask bool or additive, broadcastable to (B, H, T, S), without gradient.
struct ComposedAttention : torch::autograd::Function<ComposedAttention> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  static at::Tensor forward(Context* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const std::optional<at::Tensor>& mask,
                            bool is_causal, double scale, double dropout_p, bool training);

  static Tensors backward(Context* context, const Tensors& gradients);

 private:
  /// Computes the result, and the weights if a backward needs them, in one custom operator, so that
  /// a selective checkpoint can keep them.
  static std::tuple<at::Tensor, at::Tensor> products(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& value,
                                                     const std::optional<at::Tensor>& mask,
                                                     const std::optional<at::Tensor>& keep,
                                                     bool is_causal, double scale, double dropout_p,
                                                     bool training);
  static at::ScalarType wide_type(const at::Tensor& x);
  static double dropout_scale(double dropout_p) { return dropout_p < 1 ? 1 / (1 - dropout_p) : 0; }

  static Tensors first_backward(Context& context, const Tensors& saved, const at::Tensor& gradient);
  static void product_(at::Tensor to, const at::Tensor& a, const at::Tensor& b);

  // Computes the derivative for create_graph, by operators that autograd can differentiate.
  static Tensors differentiable_backward(Context& context, const Tensors& saved,
                                         const at::Tensor& gradient);
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/composed_attention.ipp>
#endif
