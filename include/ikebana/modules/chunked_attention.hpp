#pragma once
// Defines AttentionForm::Chunked, which computes attention for a few queries at a time.
#include <algorithm>
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <limits>
#include <optional>

namespace ikebana::detail {

// Limits of the scores that exist at once: the scores of some queries of one head with all their
// keys. A product with fewer rows than the minimum would spend its time reading the keys.
inline constexpr std::int64_t chunked_scores_bytes = 4 << 20;
inline constexpr std::int64_t min_chunked_queries = 16;

/// Queries [first, first + count) of the query heads that share one key head, and the number of
/// keys to which they may attend.
struct QueryChunk {
  std::int64_t head, first, count, keys, index;
};

/// The arguments of one chunked attention; its tensors are (key heads, groups, T or S, width).
struct ChunkedAttentionTask {
  at::Tensor query, key, value,
      mask;  // mask: undefined, or five dimensions, in which sizes of 1 are not expanded
  bool is_causal;
  double scale, dropout_p;
  std::int64_t dropout_seed;

  ChunkedAttentionTask(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                       const at::Tensor& given_mask, bool causal, double factor, double p,
                       std::int64_t seed);

  template <class F>
  void each_chunk(const F& f) const {
    const auto groups = query.size(1), queries = query.size(2), keys = key.size(1);
    const auto row = groups * keys * static_cast<std::int64_t>(query.element_size());
    const auto max = std::max(chunked_scores_bytes / row, min_chunked_queries);
    std::int64_t index = 0;
    for (std::int64_t head = 0; head < query.size(0); ++head)
      for (std::int64_t first = 0; first < queries; first += max) {
        const auto count = std::min(max, queries - first);
        f(QueryChunk{head, first, count, is_causal ? std::min(keys, first + count) : keys,
                     index++});
      }
  }

  /// Returns the chunk's rows of a (key heads, groups, T, width) tensor, as one matrix.
  static at::Tensor rows(const at::Tensor& x, const QueryChunk& p);
  /// Returns the rows of the keys (or values) to which the chunk may attend.
  static at::Tensor visible(const at::Tensor& x, const QueryChunk& p);

  /// Computes the attention weights of a chunk: (groups * count, keys).
  at::Tensor weights(const QueryChunk& p) const;
  /// Returns the factors by which dropout multiplies a chunk's weights; undefined without dropout.
  at::Tensor dropout_factors(const QueryChunk& p, const at::Tensor& like) const;

 private:
  static constexpr double minus_infinity = -std::numeric_limits<double>::infinity();
  double dropout_scale() const { return dropout_p < 1 ? 1 / (1 - dropout_p) : 0; }

  void add_mask_(at::Tensor& view, const QueryChunk& p) const;
};

/// Attention whose scores exist for a few queries at a time, in forward and backward; backward
/// computes them again. Cost: one product more than a form that keeps its weights; memory that
/// grows with T + S, not T * S. Computes in FP32 (FP64 for FP64). Dropout draws one number from
/// LibTorch's generator as the seed of its own generators. Has no second derivative.
///
/// query (B, H, T, E), key (B, G, S, E), value (B, G, S, Ev), H a multiple of G, nothing empty;
/// mask bool or additive, broadcastable to (B, H, T, S), without gradient.
struct ChunkedAttention : torch::autograd::Function<ChunkedAttention> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  static at::Tensor forward(Context* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const std::optional<at::Tensor>& mask,
                            bool is_causal, double scale, double dropout_p);

  static Tensors backward(Context* context, const Tensors& gradients);

 private:
  /// Computes the forward as a custom operator, which an OperatorScope sees as one call.
  static at::Tensor products(const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const std::optional<at::Tensor>& mask,
                             bool is_causal, double scale, double dropout_p, std::int64_t seed);
  static void write_rows(const at::Tensor& to, const QueryChunk& p, const at::Tensor& rows);
  static void backward_chunk(const ChunkedAttentionTask& task, const QueryChunk& p,
                             const at::Tensor& g, const at::Tensor& dq, const at::Tensor& dk,
                             const at::Tensor& dv);
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/chunked_attention.ipp>
#endif
