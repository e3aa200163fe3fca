#pragma once
// AttentionForm::Composed: attention as matrix products and a softmax.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include <ikebana/bridge/custom_operator.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

/// A mask as numbers to add to the scores: `_scaled_dot_product_attention_math` would add one of
/// Bool as 0 and 1.
inline std::optional<at::Tensor> added_mask(const std::optional<at::Tensor>& mask,
                                            const at::Tensor& query) {
  if (!mask || mask->scalar_type() != at::kBool) return mask;
  constexpr auto minus_infinity = -std::numeric_limits<double>::infinity();
  return at::zeros(mask->sizes(), query.options().requires_grad(false))
      .masked_fill_(mask->logical_not(), minus_infinity);
}

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
  at::Tensor scores(std::int64_t count, const at::TensorOptions& options) const {
    return at::empty({count, rows, keys}, options);
  }
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
                const std::optional<at::Tensor>& mask, bool is_causal, at::ScalarType type) {
    constexpr auto minus_infinity = -std::numeric_limits<double>::infinity();
    const auto options = query.options().dtype(type);
    if (is_causal)
      bias = at::full({1, 1, query.size(2), key.size(2)}, minus_infinity, options).triu_(1);
    if (!mask) return;
    bias = mask->scalar_type() == at::kBool
               ? at::zeros(mask->sizes(), options).masked_fill_(mask->logical_not(), minus_infinity)
               : mask->to(type);
    while (bias.dim() < 4) bias = bias.unsqueeze(0);
    if (bias.size(0) != 1 || bias.size(1) != 1) {
      bias = bias.size(1) == 1 ? bias.unsqueeze(1) : bias.unflatten(1, {key.size(1), -1});
      bias = bias.expand({key.size(0), key.size(1), -1, -1, -1}).flatten(0, 1);
    }
    fully_masked = bias.eq(minus_infinity).all(-1, true);
  }

  /// Turns the scores of the heads from `first` on into weights, in place.
  void softmax_(at::Tensor& scores, std::int64_t first, std::int64_t queries) const {
    const auto part = [&](const at::Tensor& x) {
      return x.size(0) == 1 ? x : x.narrow(0, first, scores.size(0));
    };
    auto view = scores.view({scores.size(0), -1, queries, scores.size(2)});
    if (bias.defined()) view.add_(part(bias));
    at::_softmax_out(scores, scores, -1, false);
    if (fully_masked.defined()) view.masked_fill_(part(fully_masked), 0);
  }
};

/// Attention as matrix products and a softmax, with its own backward; has a second derivative.
/// Scores are computed in FP32 for half precision inputs: rounded to half precision, the weights
/// would lose the more digits the larger the scores are. Cost: H * T * S weights are kept for
/// backward in the inputs' dtype, with dropout one more byte for each. Autocast does not cast its
/// products, because they are out= operators.
///
/// query (B, H, T, E), key (B, G, S, E), value (B, G, S, Ev), H a multiple of G, nothing empty;
/// mask bool or additive, broadcastable to (B, H, T, S), without gradient.
struct ComposedAttention : torch::autograd::Function<ComposedAttention> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  static at::Tensor forward(Context* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const std::optional<at::Tensor>& mask,
                            bool is_causal, double scale, double dropout_p, bool training) {
    at::Tensor keep;
    if (dropout_p > 0) {
      const AttentionBatch batch(query, key);
      const auto options = query.options().dtype(at::kBool);
      keep = batch.scores(batch.heads, options).bernoulli_(1 - dropout_p);
    }
    const auto [out, weights] = bridge::call_as_operator<&products>(
        "ikebana::composed_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, Tensor? "
        "keep, bool is_causal, float scale, float dropout_p, bool training) -> (Tensor, Tensor)",
        query, key, value, mask, keep.defined() ? std::optional(keep) : std::nullopt, is_causal,
        scale, dropout_p, training);
    context->save_for_backward({query, key, value, mask.value_or(at::Tensor()), weights, keep});
    context->saved_data["is_causal"] = is_causal;
    context->saved_data["scale"] = scale;
    context->saved_data["dropout_p"] = dropout_p;
    return out;
  }

  static Tensors backward(Context* context, const Tensors& gradients) {
    const auto saved = context->get_saved_variables();
    return at::GradMode::is_enabled() ? differentiable_backward(*context, saved, gradients[0])
                                      : first_backward(*context, saved, gradients[0]);
  }

 private:
  /// The result, and the weights if a backward needs them: one custom operator for both, so that a
  /// selective checkpoint can keep them.
  static std::tuple<at::Tensor, at::Tensor> products(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& value,
                                                     const std::optional<at::Tensor>& mask,
                                                     const std::optional<at::Tensor>& keep,
                                                     bool is_causal, double scale, double dropout_p,
                                                     bool training) {
    const AttentionBatch batch(query, key);
    const auto type = query.scalar_type(), wide = wide_type(query);
    const AttentionBias bias(query, key, mask, is_causal, wide);
    const auto q = batch.matrices(query.to(wide) * scale), v = batch.matrices(value);
    const auto k = batch.matrices(key.to(wide)).transpose(1, 2);
    const auto weights = batch.scores(training ? batch.heads : batch.chunk, query.options());
    const auto buffer =
        wide == type ? at::Tensor() : batch.scores(batch.chunk, query.options().dtype(wide));
    auto out = at::empty({batch.heads, batch.rows, v.size(2)}, query.options());
    batch.each_chunk([&](std::int64_t first, std::int64_t n) {
      const auto part = [&](const at::Tensor& x) { return x.narrow(0, first, n); };
      auto w = weights.narrow(0, training ? first : 0, n), o = part(out);
      auto scores = buffer.defined() ? buffer.narrow(0, 0, n) : w;
      at::bmm_out(scores, part(q), part(k));
      bias.softmax_(scores, first, batch.queries);
      if (buffer.defined()) w.copy_(scores);
      at::bmm_out(o, keep ? w.mul(part(*keep)).mul_(dropout_scale(dropout_p)) : w, part(v));
    });
    return {out.view({query.size(0), query.size(1), query.size(2), v.size(2)}),
            training ? weights : at::Tensor()};
  }
  static at::ScalarType wide_type(const at::Tensor& x) {
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }
  static double dropout_scale(double dropout_p) { return dropout_p < 1 ? 1 / (1 - dropout_p) : 0; }

  static Tensors first_backward(Context& context, const Tensors& saved,
                                const at::Tensor& gradient) {
    const auto &query = saved[0], &key = saved[1], &value = saved[2], &weights = saved[4],
               &keep = saved[5];
    const auto scale = context.saved_data["scale"].toDouble();
    const auto factor = dropout_scale(context.saved_data["dropout_p"].toDouble());
    const AttentionBatch batch(query, key);
    const auto q = batch.matrices(query), k = batch.matrices(key), v = batch.matrices(value),
               g = batch.matrices(gradient);
    const auto like = [&](std::size_t i, const at::Tensor& x) {
      return context.needs_input_grad(i) ? at::empty(x.sizes(), x.options()) : at::Tensor();
    };
    const auto dq = like(0, q), dk = like(1, k), dv = like(2, v);
    const auto buffer = batch.scores(batch.chunk, q.options());
    batch.each_chunk([&](std::int64_t first, std::int64_t n) {
      const auto part = [&](const at::Tensor& x) { return x.narrow(0, first, n); };
      const auto w = part(weights);
      if (dv.defined()) {
        const auto dropped = keep.defined() ? w.mul(part(keep)).mul_(factor) : w;
        product_(part(dv), dropped.transpose(1, 2), part(g));
      }
      if (!dq.defined() && !dk.defined()) return;
      auto d = buffer.narrow(0, 0, n);
      at::bmm_out(d, part(g), part(v).transpose(1, 2));
      if (keep.defined()) d.mul_(part(keep)).mul_(factor);
      at::_softmax_backward_data_out(d, d, w, -1, w.scalar_type());
      if (dq.defined()) product_(part(dq), d, part(k));
      if (dk.defined()) product_(part(dk), d.transpose(1, 2), part(q));
    });
    const auto view_as = [](const at::Tensor& x, const at::Tensor& input) {
      return x.defined() ? x.view(input.sizes()) : x;
    };
    if (dq.defined()) dq.mul_(scale);
    if (dk.defined()) dk.mul_(scale);
    return {view_as(dq, query), view_as(dk, key), view_as(dv, value), {}, {}, {}, {}, {}};
  }
  static void product_(at::Tensor to, const at::Tensor& a, const at::Tensor& b) {
    at::bmm_out(to, a, b);
  }

  // With create_graph: the same derivative in operators that autograd can differentiate.
  static Tensors differentiable_backward(Context& context, const Tensors& saved,
                                         const at::Tensor& gradient) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto &query = saved[0], &key = saved[1], &value = saved[2], &keep = saved[5];
    const auto mask = saved[3].defined() ? std::optional(saved[3]) : std::nullopt;
    const auto scale = context.saved_data["scale"].toDouble();
    const auto wide = wide_type(query);
    const AttentionBatch batch(query, key);
    const AttentionBias bias(query, key, mask, context.saved_data["is_causal"].toBool(), wide);
    const auto q = batch.matrices(query.to(wide)), k = batch.matrices(key.to(wide)),
               v = batch.matrices(value.to(wide)), g = batch.matrices(gradient.to(wide));
    auto scores = at::bmm(q, k.transpose(1, 2)).mul(scale).unflatten(1, {-1, batch.queries});
    if (bias.bias.defined()) scores = scores + bias.bias;
    const auto w = at::_safe_softmax(scores, -1).flatten(1, 2);
    auto dropped = w, d = at::bmm(g, v.transpose(1, 2));
    if (keep.defined()) {
      const auto factors =
          keep.to(wide).mul(dropout_scale(context.saved_data["dropout_p"].toDouble()));
      dropped = w * factors;
      d = d * factors;
    }
    d = w * (d - (w * d).sum(-1, true)) * scale;
    const auto type = query.scalar_type();
    return {at::bmm(d, k).view(query.sizes()).to(type),
            at::bmm(d.transpose(1, 2), q).view(key.sizes()).to(type),
            at::bmm(dropped.transpose(1, 2), g).view(value.sizes()).to(type),
            {},
            {},
            {},
            {},
            {}};
  }
};

}  // namespace ikebana::detail
