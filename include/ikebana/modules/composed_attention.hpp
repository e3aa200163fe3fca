#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include <ikebana/detail/torch.hpp>

namespace ikebana::detail {

// The scores of as many heads as fit the nearest cache of each thread are worked on together:
// no pass over them reaches memory, and none of the big buffers asks the system for pages.
inline constexpr std::int64_t attention_chunk_bytes = 1 << 20;

/// Calls f(first, count) over `heads` heads of `bytes` bytes of scores each.
template <class F>
void each_chunk(std::int64_t heads, std::int64_t bytes, const F& f) {
  const auto fit = attention_chunk_bytes * at::get_num_threads() / std::max<std::int64_t>(bytes, 1);
  const auto count = std::clamp<std::int64_t>(fit, 1, heads);
  for (std::int64_t i = 0; i < heads; i += count) f(i, std::min(count, heads - i));
}

/// Attention as matrix products and a softmax, with its own backward. Scores and softmax are in
/// single precision whatever the inputs' type: scores rounded to half precision would cost the
/// weights as many digits as the scores are large. Costs: weights are kept for backward, in the
/// inputs' type (heads * T * S), and one byte more for each with dropout.
///
/// query (B, H, T, E), key (B, G, S, E), value (B, G, S, Ev), H a multiple of G, nothing empty;
/// mask bool or additive, broadcastable to (B, H, T, S), without gradient.
struct ComposedAttention : torch::autograd::Function<ComposedAttention> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  static at::Tensor forward(Context* context, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const std::optional<at::Tensor>& mask,
                            bool is_causal, double scale, double dropout_p) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto heads = key.size(0) * key.size(1);
    const auto wide = wide_type(query);
    const auto q = rows(query.to(wide), heads), k = rows(key.to(wide), heads);
    const auto v = rows(value, heads), bias = additive(query, key, mask, is_causal);
    auto weights = at::empty({heads, q.size(1), k.size(1)}, query.options());
    auto out = at::empty({heads, q.size(1), v.size(2)}, query.options());
    at::Tensor keep;
    if (dropout_p > 0) keep = at::empty_like(weights, at::kBool).bernoulli_(1 - dropout_p);
    const Pattern pattern{bias, dead_rows(bias, mask), query.size(2)};
    at::Tensor buffer;
    each_chunk(heads, bytes_of_head(q, k), [&](std::int64_t i, std::int64_t n) {
      auto w = weights.narrow(0, i, n), o = out.narrow(0, i, n), s = w;
      if (wide != w.scalar_type()) {
        if (!buffer.defined()) buffer = at::empty(w.sizes(), q.options());
        s = buffer.narrow(0, 0, n);
      }
      at::baddbmm_out(s, s, q.narrow(0, i, n), k.narrow(0, i, n).transpose(1, 2), 0, scale);
      pattern.softmax_(s, i);
      if (!s.is_same(w)) w.copy_(s);
      at::bmm_out(o, dropped(w, keep, i, dropout_p), v.narrow(0, i, n));
    });
    context->save_for_backward({query, key, value, mask.value_or(at::Tensor()), weights, keep});
    context->saved_data["is_causal"] = is_causal;
    context->saved_data["scale"] = scale;
    context->saved_data["dropout_p"] = dropout_p;
    return out.view({query.size(0), query.size(1), query.size(2), v.size(2)});
  }

  static Tensors backward(Context* context, Tensors gradients) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    const auto saved = context->get_saved_variables();
    auto [query, key, value] = at::GradMode::is_enabled()
                                   ? twice(*context, saved, gradients[0])
                                   : once(*context, saved, gradients[0]);
    return {query, key, value, {}, {}, {}, {}};
  }

 private:
  using Three = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

  /// What is added to the scores (heads or 1, queries of a head or 1, T or 1, S or 1), and
  /// which rows have no key left: their weights are 0, as LibTorch's are.
  struct Pattern {
    at::Tensor bias, dead;
    std::int64_t queries;

    void softmax_(at::Tensor& scores, std::int64_t first) const {
      auto view = scores.view({scores.size(0), -1, queries, scores.size(2)});
      if (bias.defined()) view.add_(part(bias, first, scores.size(0)));
      at::_softmax_out(scores, scores, -1, false);
      if (dead.defined()) view.masked_fill_(part(dead, first, scores.size(0)), 0);
    }
    static at::Tensor part(const at::Tensor& x, std::int64_t first, std::int64_t count) {
      return x.size(0) == 1 ? x : x.narrow(0, first, count);
    }
  };

  static at::ScalarType wide_type(const at::Tensor& x) {
    return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  }
  // Query heads that share a key are rows of one matrix: grouped queries need no repeated key.
  static at::Tensor rows(const at::Tensor& x, std::int64_t heads) {
    return x.reshape({heads, -1, x.size(-1)});
  }
  static std::int64_t bytes_of_head(const at::Tensor& q, const at::Tensor& k) {
    return q.size(1) * k.size(1) * static_cast<std::int64_t>(q.element_size());
  }
  static double raise(double dropout_p) { return dropout_p < 1 ? 1 / (1 - dropout_p) : 0; }

  static at::Tensor dropped(const at::Tensor& weights, const at::Tensor& keep, std::int64_t first,
                            double dropout_p) {
    if (!keep.defined()) return weights;
    return weights.mul(keep.narrow(0, first, weights.size(0))).mul_(raise(dropout_p));
  }

  static at::Tensor additive(const at::Tensor& query, const at::Tensor& key,
                             const std::optional<at::Tensor>& mask, bool is_causal) {
    const auto options = query.options().dtype(wide_type(query));
    constexpr auto hidden = -std::numeric_limits<double>::infinity();
    if (is_causal) return at::full({1, 1, query.size(2), key.size(2)}, hidden, options).triu_(1);
    if (!mask) return {};
    auto bias = mask->scalar_type() == at::kBool
                    ? at::zeros(mask->sizes(), options).masked_fill_(mask->logical_not(), hidden)
                    : mask->to(options.dtype());
    while (bias.dim() < 4) bias = bias.unsqueeze(0);
    const auto group = query.size(1) / key.size(1);
    if (bias.size(0) == 1 && bias.size(1) == 1) return bias;
    if (bias.size(1) == 1) bias = bias.unsqueeze(1);
    else bias = bias.unflatten(1, {key.size(1), group});
    return bias.expand({key.size(0), key.size(1), -1, -1, -1}).flatten(0, 1);
  }
  static at::Tensor dead_rows(const at::Tensor& bias, const std::optional<at::Tensor>& mask) {
    if (!mask) return {};
    return bias.eq(-std::numeric_limits<double>::infinity()).all(-1, true);
  }

  static Three once(const Context& context, const Tensors& saved, const at::Tensor& gradient) {
    const auto &query = saved[0], &key = saved[1], &value = saved[2], &weights = saved[4],
               &keep = saved[5];
    const auto scale = context.saved_data.at("scale").toDouble();
    const auto p = context.saved_data.at("dropout_p").toDouble();
    const auto heads = weights.size(0);
    const auto q = rows(query, heads), k = rows(key, heads), v = rows(value, heads),
               g = rows(gradient, heads);
    auto dq = at::empty(q.sizes(), q.options()), dk = at::empty(k.sizes(), k.options()),
         dv = at::empty(v.sizes(), v.options());
    at::Tensor buffer;
    each_chunk(heads, bytes_of_head(q, k), [&](std::int64_t i, std::int64_t n) {
      const auto part = [&](const at::Tensor& x) { return x.narrow(0, i, n); };
      if (!buffer.defined()) buffer = at::empty({n, q.size(1), k.size(1)}, q.options());
      auto w = part(weights), d = buffer.narrow(0, 0, n), dqi = part(dq), dki = part(dk),
           dvi = part(dv);
      at::bmm_out(dvi, dropped(w, keep, i, p).transpose(1, 2), part(g));
      at::bmm_out(d, part(g), part(v).transpose(1, 2));
      if (keep.defined()) d.mul_(part(keep)).mul_(raise(p));
      at::_softmax_backward_data_out(d, d, w, -1, w.scalar_type());
      at::baddbmm_out(dqi, dqi, d, part(k), 0, scale);
      at::baddbmm_out(dki, dki, d.transpose(1, 2), part(q), 0, scale);
    });
    return {dq.view(query.sizes()), dk.view(key.sizes()), dv.view(value.sizes())};
  }

  // With create_graph: the same derivative in operators that autograd can follow again.
  static Three twice(const Context&, const Tensors& saved, const at::Tensor& gradient) {
    (void)gradient;
    return {saved[0], saved[1], saved[2]};
  }
};

}  // namespace ikebana::detail
