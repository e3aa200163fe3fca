#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>

#include <ikebana/bridge/custom_operator.hpp>
#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

// The scores of as many heads as fit the second cache of each thread are worked on together:
// no pass over them reaches memory, and nothing asks the system for fresh pages.
inline constexpr std::int64_t attention_chunk_bytes = 1 << 20;

/// One attention as batches of matrices: the query heads that share a key are rows of one matrix,
/// so grouped queries need no repeated key.
struct AttentionBatch {
  std::int64_t heads, rows, queries, keys;  // of keys; of one matrix; T; S
  std::int64_t chunk;                       // heads that are worked on together

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

/// What masks do to scores: `bias` is added, and rows of `dead` have no key left, so their weights
/// are 0 as LibTorch's are. Both are (heads or 1, groups or 1, T or 1, S or 1), or not there.
struct AttentionBias {
  at::Tensor bias, dead;

  AttentionBias(const at::Tensor& query, const at::Tensor& key,
                const std::optional<at::Tensor>& mask, bool is_causal, at::ScalarType type) {
    constexpr auto hidden = -std::numeric_limits<double>::infinity();
    const auto options = query.options().dtype(type);
    if (is_causal) bias = at::full({1, 1, query.size(2), key.size(2)}, hidden, options).triu_(1);
    if (!mask) return;
    bias = mask->scalar_type() == at::kBool
               ? at::zeros(mask->sizes(), options).masked_fill_(mask->logical_not(), hidden)
               : mask->to(type);
    while (bias.dim() < 4) bias = bias.unsqueeze(0);
    if (bias.size(0) != 1 || bias.size(1) != 1) {
      bias = bias.size(1) == 1 ? bias.unsqueeze(1) : bias.unflatten(1, {key.size(1), -1});
      bias = bias.expand({key.size(0), key.size(1), -1, -1, -1}).flatten(0, 1);
    }
    dead = bias.eq(hidden).all(-1, true);
  }

  /// Scores of the heads [first, first + count) to weights, in place.
  void softmax_(at::Tensor& scores, std::int64_t first, std::int64_t queries) const {
    const auto part = [&](const at::Tensor& x) {
      return x.size(0) == 1 ? x : x.narrow(0, first, scores.size(0));
    };
    auto view = scores.view({scores.size(0), -1, queries, scores.size(2)});
    if (bias.defined()) view.add_(part(bias));
    at::_softmax_out(scores, scores, -1, false);
    if (dead.defined()) view.masked_fill_(part(dead), 0);
  }
};

/// Attention as matrix products and a softmax, with its own backward; differentiable again.
/// Scores are in single precision whatever the inputs' type: rounded to half precision they would
/// cost the weights as many digits as the scores are large. Costs: the weights are kept for
/// backward in the inputs' type (H * T * S), with dropout one byte more for each. Autocast leaves
/// its products alone, since they write into given tensors.
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
    return at::GradMode::is_enabled() ? again(*context, saved, gradients[0])
                                      : once(*context, saved, gradients[0]);
  }

 private:
  /// The result, and the weights where a backward will ask for them: one operator for whoever
  /// looks at operators, so that a selective checkpoint can keep both.
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
      at::bmm_out(o, keep ? w.mul(part(*keep)).mul_(raise(dropout_p)) : w, part(v));
    });
    return {out.view({query.size(0), query.size(1), query.size(2), v.size(2)}),
            training ? weights : at::Tensor()};
  }
  static at::ScalarType wide_type(const at::Tensor& x) {
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }
  static double raise(double dropout_p) { return dropout_p < 1 ? 1 / (1 - dropout_p) : 0; }

  static Tensors once(Context& context, const Tensors& saved, const at::Tensor& gradient) {
    const auto &query = saved[0], &key = saved[1], &value = saved[2], &weights = saved[4],
               &keep = saved[5];
    const auto scale = context.saved_data["scale"].toDouble();
    const auto factor = raise(context.saved_data["dropout_p"].toDouble());
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
        const auto used = keep.defined() ? w.mul(part(keep)).mul_(factor) : w;
        product_(part(dv), used.transpose(1, 2), part(g));
      }
      if (!dq.defined() && !dk.defined()) return;
      auto d = buffer.narrow(0, 0, n);
      at::bmm_out(d, part(g), part(v).transpose(1, 2));
      if (keep.defined()) d.mul_(part(keep)).mul_(factor);
      at::_softmax_backward_data_out(d, d, w, -1, w.scalar_type());
      if (dq.defined()) product_(part(dq), d, part(k));
      if (dk.defined()) product_(part(dk), d.transpose(1, 2), part(q));
    });
    const auto to = [](const at::Tensor& x, const at::Tensor& as) {
      return x.defined() ? x.view(as.sizes()) : x;
    };
    if (dq.defined()) dq.mul_(scale);
    if (dk.defined()) dk.mul_(scale);
    return {to(dq, query), to(dk, key), to(dv, value), {}, {}, {}, {}, {}};
  }
  static void product_(at::Tensor to, const at::Tensor& a, const at::Tensor& b) {
    at::bmm_out(to, a, b);
  }

  // With create_graph: the same derivative in operators that autograd follows again.
  static Tensors again(Context& context, const Tensors& saved, const at::Tensor& gradient) {
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
    auto used = w, d = at::bmm(g, v.transpose(1, 2));
    if (keep.defined()) {
      const auto mine = keep.to(wide).mul(raise(context.saved_data["dropout_p"].toDouble()));
      used = w * mine;
      d = d * mine;
    }
    d = w * (d - (w * d).sum(-1, true)) * scale;
    const auto type = query.scalar_type();
    return {at::bmm(d, k).view(query.sizes()).to(type),
            at::bmm(d.transpose(1, 2), q).view(key.sizes()).to(type),
            at::bmm(used.transpose(1, 2), g).view(value.sizes()).to(type),
            {},
            {},
            {},
            {},
            {}};
  }
};

}  // namespace ikebana::detail
