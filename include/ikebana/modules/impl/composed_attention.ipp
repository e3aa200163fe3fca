#pragma once
#include <ikebana/bridge/custom_operator.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/composed_attention.hpp>
#include <limits>

namespace ikebana::detail {

IKEBANA_INLINE std::optional<at::Tensor> added_mask(const std::optional<at::Tensor>& mask,
                                                    const at::Tensor& query) {
  if (!mask || mask->scalar_type() != at::kBool) return mask;
  constexpr auto minus_infinity = -std::numeric_limits<double>::infinity();
  return at::zeros(mask->sizes(), query.options().requires_grad(false))
      .masked_fill_(mask->logical_not(), minus_infinity);
}

IKEBANA_INLINE at::Tensor AttentionBatch::scores(std::int64_t count,
                                                 const at::TensorOptions& options) const {
  return at::empty({count, rows, keys}, options);
}

IKEBANA_INLINE AttentionBias::AttentionBias(const at::Tensor& query, const at::Tensor& key,
                                            const std::optional<at::Tensor>& mask, bool is_causal,
                                            at::ScalarType type) {
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

IKEBANA_INLINE void AttentionBias::softmax_(at::Tensor& scores, std::int64_t first,
                                            std::int64_t queries) const {
  const auto part = [&](const at::Tensor& x) {
    return x.size(0) == 1 ? x : x.narrow(0, first, scores.size(0));
  };
  auto view = scores.view({scores.size(0), -1, queries, scores.size(2)});
  if (bias.defined()) view.add_(part(bias));
  at::_softmax_out(scores, scores, -1, false);
  if (fully_masked.defined()) view.masked_fill_(part(fully_masked), 0);
}

IKEBANA_INLINE at::Tensor ComposedAttention::forward(Context* context, const at::Tensor& query,
                                                     const at::Tensor& key, const at::Tensor& value,
                                                     const std::optional<at::Tensor>& mask,
                                                     bool is_causal, double scale, double dropout_p,
                                                     bool training) {
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

IKEBANA_INLINE ComposedAttention::Tensors ComposedAttention::backward(Context* context,
                                                                      const Tensors& gradients) {
  const auto saved = context->get_saved_variables();
  return at::GradMode::is_enabled() ? differentiable_backward(*context, saved, gradients[0])
                                    : first_backward(*context, saved, gradients[0]);
}

IKEBANA_INLINE std::tuple<at::Tensor, at::Tensor> ComposedAttention::products(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
    const std::optional<at::Tensor>& mask, const std::optional<at::Tensor>& keep, bool is_causal,
    double scale, double dropout_p, bool training) {
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

IKEBANA_INLINE at::ScalarType ComposedAttention::wide_type(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

IKEBANA_INLINE ComposedAttention::Tensors ComposedAttention::first_backward(
    Context& context, const Tensors& saved, const at::Tensor& gradient) {
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

IKEBANA_INLINE void ComposedAttention::product_(at::Tensor to, const at::Tensor& a,
                                                const at::Tensor& b) {
  at::bmm_out(to, a, b);
}

IKEBANA_INLINE ComposedAttention::Tensors ComposedAttention::differentiable_backward(
    Context& context, const Tensors& saved, const at::Tensor& gradient) {
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

}  // namespace ikebana::detail
