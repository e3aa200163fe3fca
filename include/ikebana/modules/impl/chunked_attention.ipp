#pragma once
#include <ikebana/bridge/custom_operator.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/recording.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/chunked_attention.hpp>

namespace ikebana::detail {

IKEBANA_INLINE ChunkedAttentionTask::ChunkedAttentionTask(const at::Tensor& q, const at::Tensor& k,
                                                          const at::Tensor& v,
                                                          const at::Tensor& given_mask, bool causal,
                                                          double factor, double p,
                                                          std::int64_t seed)
    : mask(given_mask), is_causal(causal), scale(factor), dropout_p(p), dropout_seed(seed) {
  const auto wide = q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto heads = k.size(0) * k.size(1);
  query = q.to(wide).reshape({heads, -1, q.size(2), q.size(3)});
  key = k.to(wide).reshape({heads, k.size(2), k.size(3)});
  value = v.to(wide).reshape({heads, v.size(2), v.size(3)});
  if (!mask.defined()) return;
  if (mask.scalar_type() != at::kBool) mask = mask.to(wide);
  mask = mask.expand({q.size(0), q.size(1), -1, -1}).unflatten(1, {k.size(1), -1});
}

IKEBANA_INLINE at::Tensor ChunkedAttentionTask::rows(const at::Tensor& x, const QueryChunk& p) {
  return x.select(0, p.head).narrow(1, p.first, p.count).reshape({-1, x.size(3)});
}

IKEBANA_INLINE at::Tensor ChunkedAttentionTask::visible(const at::Tensor& x, const QueryChunk& p) {
  return x.select(0, p.head).narrow(0, 0, p.keys);
}

IKEBANA_INLINE at::Tensor ChunkedAttentionTask::weights(const QueryChunk& p) const {
  auto scores = rows(query, p).mm(visible(key, p).t()).mul_(scale);
  auto view = scores.view({-1, p.count, p.keys});
  if (is_causal && p.keys > p.first) {
    auto diagonal = view.narrow(2, p.first, p.keys - p.first);
    diagonal.masked_fill_(
        at::ones(diagonal.sizes().slice(1), diagonal.options().dtype(at::kBool)).triu_(1),
        minus_infinity);
  }
  if (mask.defined()) add_mask_(view, p);
  const auto fully_masked = mask.defined() ? scores.amax(1, true).eq(minus_infinity) : at::Tensor();
  at::_softmax_out(scores, scores, 1, false);
  return fully_masked.defined() ? scores.masked_fill_(fully_masked, 0) : scores;
}

IKEBANA_INLINE at::Tensor ChunkedAttentionTask::dropout_factors(const QueryChunk& p,
                                                                const at::Tensor& like) const {
  if (dropout_p == 0) return {};
  const auto chunk_seed =
      static_cast<std::uint64_t>(dropout_seed) + static_cast<std::uint64_t>(p.index);
  auto generator = at::make_generator<at::CPUGeneratorImpl>(chunk_seed);
  return at::empty_like(like).bernoulli_(1 - dropout_p, generator).mul_(dropout_scale());
}

IKEBANA_INLINE void ChunkedAttentionTask::add_mask_(at::Tensor& view, const QueryChunk& p) const {
  auto part = mask.select(0, p.head / mask.size(1)).select(0, p.head % mask.size(1));
  if (part.size(1) != 1) part = part.narrow(1, p.first, p.count);
  if (part.size(2) != 1) part = part.narrow(2, 0, p.keys);
  if (part.scalar_type() == at::kBool) view.masked_fill_(part.logical_not(), minus_infinity);
  else view.add_(part);
}

IKEBANA_INLINE at::Tensor ChunkedAttention::forward(Context* context, const at::Tensor& query,
                                                    const at::Tensor& key, const at::Tensor& value,
                                                    const std::optional<at::Tensor>& mask,
                                                    bool is_causal, double scale,
                                                    double dropout_p) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  if (dropout_p > 0 && recording())
    throw Error(
        "attention: the step is recorded, and AttentionForm::Chunked reads the seed of its "
        "dropout on the host; set .form = AttentionForm::Composed, or no dropout");
  const auto seed = dropout_p > 0 ? at::empty({}, at::kLong).random_().item<std::int64_t>() : 0;
  auto out = bridge::call_as_operator<&products>(
      "ikebana::chunked_attention(Tensor query, Tensor key, Tensor value, Tensor? mask, bool "
      "is_causal, float scale, float dropout_p, int seed) -> Tensor",
      query, key, value, mask, is_causal, scale, dropout_p, seed);
  context->save_for_backward({query, key, value, mask.value_or(at::Tensor())});
  context->saved_data["is_causal"] = is_causal;
  context->saved_data["scale"] = scale;
  context->saved_data["dropout_p"] = dropout_p;
  context->saved_data["seed"] = seed;
  return out;
}

IKEBANA_INLINE ChunkedAttention::Tensors ChunkedAttention::backward(Context* context,
                                                                    const Tensors& gradients) {
  if (at::GradMode::is_enabled())
    throw Error(
        "attention: AttentionForm::Chunked has no second derivative; set .form = "
        "AttentionForm::Composed for calls with create_graph");
  const auto saved = context->get_saved_variables();
  auto& data = context->saved_data;
  const ChunkedAttentionTask task(saved[0], saved[1], saved[2], saved[3],
                                  data["is_causal"].toBool(), data["scale"].toDouble(),
                                  data["dropout_p"].toDouble(), data["seed"].toInt());
  const auto g = gradients[0]
                     .to(task.query.scalar_type())
                     .reshape({task.query.size(0), task.query.size(1), task.query.size(2), -1});
  const auto dq = at::empty_like(task.query), dk = at::zeros_like(task.key),
             dv = at::zeros_like(task.value);
  task.each_chunk([&](const QueryChunk& p) { backward_chunk(task, p, g, dq, dk, dv); });
  const auto like = [](const at::Tensor& x, const at::Tensor& input) {
    return x.view(input.sizes()).to(input.scalar_type());
  };
  return {like(dq, saved[0]), like(dk, saved[1]), like(dv, saved[2]), {}, {}, {}, {}};
}

IKEBANA_INLINE at::Tensor ChunkedAttention::products(const at::Tensor& query, const at::Tensor& key,
                                                     const at::Tensor& value,
                                                     const std::optional<at::Tensor>& mask,
                                                     bool is_causal, double scale, double dropout_p,
                                                     std::int64_t seed) {
  const ChunkedAttentionTask task(query, key, value, mask.value_or(at::Tensor()), is_causal, scale,
                                  dropout_p, seed);
  const auto& q = task.query;
  const auto out = at::empty({q.size(0), q.size(1), q.size(2), value.size(3)}, q.options());
  task.each_chunk([&](const QueryChunk& p) {
    auto w = task.weights(p);
    if (const auto factors = task.dropout_factors(p, w); factors.defined()) w.mul_(factors);
    write_rows(out, p, w.mm(task.visible(task.value, p)));
  });
  return out.view({query.size(0), query.size(1), query.size(2), -1}).to(query.scalar_type());
}

IKEBANA_INLINE void ChunkedAttention::write_rows(const at::Tensor& to, const QueryChunk& p,
                                                 const at::Tensor& rows) {
  auto part = to.select(0, p.head).narrow(1, p.first, p.count);
  part.copy_(rows.view(part.sizes()));
}

IKEBANA_INLINE void ChunkedAttention::backward_chunk(const ChunkedAttentionTask& task,
                                                     const QueryChunk& p, const at::Tensor& g,
                                                     const at::Tensor& dq, const at::Tensor& dk,
                                                     const at::Tensor& dv) {
  const auto w = task.weights(p), factors = task.dropout_factors(p, w), rows = task.rows(g, p);
  auto dv_rows = task.visible(dv, p), dk_rows = task.visible(dk, p);
  dv_rows.addmm_((factors.defined() ? w.mul(factors) : w).t(), rows);
  auto d = rows.mm(task.visible(task.value, p).t());
  if (factors.defined()) d.mul_(factors);
  at::_softmax_backward_data_out(d, d, w, 1, w.scalar_type());
  d.mul_(task.scale);
  write_rows(dq, p, d.mm(task.visible(task.key, p)));
  dk_rows.addmm_(d.t(), task.rows(task.query, p));
}

}  // namespace ikebana::detail
