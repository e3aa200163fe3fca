#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/chunked_cross_entropy.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t CrossEntropyTask::rows_at_once(std::int64_t classes,
                                                           bool on_cpu) const {
  if (chunk_rows > 0) return chunk_rows;
  const auto row = classes * static_cast<std::int64_t>(c10::elementSize(wide()));
  const auto bytes = on_cpu ? logits_chunk_bytes : device_chunk_bytes;
  const auto steps = bytes / std::max<std::int64_t>(row * logits_rows_step, 1);
  return std::max<std::int64_t>(steps, 1) * logits_rows_step;
}

IKEBANA_INLINE ChunkedCrossEntropy::ChunkedCrossEntropy(const at::Tensor& hidden,
                                                        const at::Tensor& weight,
                                                        const at::Tensor& bias,
                                                        const at::Tensor& target,
                                                        const CrossEntropyTask& task)
    : task_(task),
      hidden_(hidden.to(task.compute)),
      weight_(weight.to(task.compute)),
      bias_(bias.defined() ? bias.to(task.compute) : bias),
      target_(target.unsqueeze(1)) {
  const auto rows = std::min(task.rows_at_once(weight.size(0), hidden.is_cpu()), hidden.size(0));
  const auto narrow = hidden_.options(), wide = narrow.dtype(task.wide());
  logits_ = at::empty({rows, weight.size(0)}, narrow);
  scores_ = task.wide() == task.compute ? logits_ : at::empty(logits_.sizes(), wide);
  losses_ = at::empty({hidden.size(0), 1}, wide);
  if (task.needs_grad[0]) grad_hidden = at::empty(hidden_.sizes(), narrow);
  if (task.needs_grad[1]) grad_weight = at::zeros(weight_.sizes(), wide);
  if (task.needs_grad[2]) grad_bias = at::zeros({weight.size(0)}, wide);
  for (std::int64_t i = 0; i < hidden.size(0); i += rows)
    compute_chunk(i, std::min(rows, hidden.size(0) - i));
}

IKEBANA_INLINE at::Tensor ChunkedCrossEntropy::sum() const {
  return task_.has_ignored ? losses_.mul(task_.kept.unsqueeze(1)).sum() : losses_.sum();
}

IKEBANA_INLINE void ChunkedCrossEntropy::compute_chunk(std::int64_t first, std::int64_t rows) {
  const auto part = [&](const at::Tensor& x) { return x.narrow(0, first, rows); };
  const auto hidden = part(hidden_), target = part(target_);
  auto logits = logits_.narrow(0, 0, rows), scores = scores_.narrow(0, 0, rows);
  if (bias_.defined()) at::addmm_out(logits, bias_, hidden, weight_.t());
  else at::mm_out(logits, hidden, weight_.t());
  if (task_.wide() != task_.compute) scores.copy_(logits);
  at::_log_softmax_out(scores, scores, 1, false);
  auto losses = part(losses_);
  write_losses(losses, scores, target);
  if (!task_.needs_grad[0] && !task_.needs_grad[1] && !task_.needs_grad[2]) return;
  to_gradient_(scores, target);
  if (task_.has_ignored) scores.mul_(part(task_.kept).unsqueeze(1));
  if (task_.wide() != task_.compute) logits.copy_(scores);
  if (grad_bias.defined()) grad_bias.add_(scores.sum(0));
  auto grad_rows = grad_hidden.defined() ? part(grad_hidden) : at::Tensor();
  if (grad_rows.defined()) at::mm_out(grad_rows, logits, weight_);
  if (grad_weight.defined()) add_to_weight(logits, hidden);
}

IKEBANA_INLINE void ChunkedCrossEntropy::write_losses(at::Tensor& losses, const at::Tensor& log_p,
                                                      const at::Tensor& target) const {
  at::neg_out(losses, log_p.gather(1, target));
  const auto smoothing = task_.label_smoothing;
  if (smoothing == 0) return;
  const auto smoothed = log_p.sum(1, true).mul_(smoothing / static_cast<double>(log_p.size(1)));
  losses.mul_(1 - smoothing).sub_(smoothed);
}

IKEBANA_INLINE void ChunkedCrossEntropy::to_gradient_(at::Tensor& log_p,
                                                      const at::Tensor& target) const {
  auto p = log_p.exp_();
  const auto smoothing = task_.label_smoothing;
  if (smoothing != 0) p.sub_(smoothing / static_cast<double>(p.size(1)));
  p.scatter_(1, target, p.gather(1, target).sub_(1 - smoothing));
}

IKEBANA_INLINE void ChunkedCrossEntropy::add_to_weight(const at::Tensor& gradient,
                                                       const at::Tensor& hidden) {
  if (task_.wide() == task_.compute) {
    grad_weight.addmm_(gradient.t(), hidden);
    return;
  }
  // Accumulated in half precision, small products would be lost beside a large sum.
  const auto classes = grad_weight.size(0);
  const auto slice = std::max<std::int64_t>(half_slice_bytes / 2 / grad_weight.size(1), 1);
  for (std::int64_t i = 0; i < classes; i += slice) {
    const auto n = std::min(slice, classes - i);
    grad_weight.narrow(0, i, n).add_(at::mm(gradient.narrow(1, i, n).t(), hidden));
  }
}

IKEBANA_INLINE at::Tensor LinearCrossEntropy::forward(Context* context, const at::Tensor& hidden,
                                                      const at::Tensor& weight,
                                                      const std::optional<at::Tensor>& given_bias,
                                                      const at::Tensor& target,
                                                      const CrossEntropyTask& task) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto bias = given_bias.value_or(at::Tensor());
  ChunkedCrossEntropy pass(hidden, weight, bias, target, task);
  const auto like = [](const at::Tensor& x, const at::Tensor& input) {
    return x.defined() ? x.to(input.scalar_type()) : x;
  };
  context->save_for_backward({hidden, weight, bias, target, task.kept,
                              like(pass.grad_hidden, hidden), like(pass.grad_weight, weight),
                              like(pass.grad_bias, bias)});
  context->saved_data["has_ignored"] = task.has_ignored;
  context->saved_data["label_smoothing"] = task.label_smoothing;
  context->saved_data["compute"] = static_cast<std::int64_t>(task.compute);
  return pass.sum();
}

IKEBANA_INLINE LinearCrossEntropy::Tensors LinearCrossEntropy::backward(Context* context,
                                                                        const Tensors& gradients) {
  const auto saved = context->get_saved_variables();
  if (at::GradMode::is_enabled()) return differentiable_backward(*context, saved, gradients[0]);
  const bool last_use = !torch::autograd::get_current_graph_task_keep_graph();
  const auto scaled = [&](std::size_t i) {
    auto x = saved[5 + i];
    if (!x.defined() || !context->needs_input_grad(i)) return at::Tensor();
    // The last use scales in place, without a second tensor as large as the weight.
    return last_use ? x.mul_(gradients[0]) : x.mul(gradients[0]);
  };
  return {scaled(0), scaled(1), scaled(2), {}, {}};
}

IKEBANA_INLINE LinearCrossEntropy::Tensors LinearCrossEntropy::differentiable_backward(
    Context& context, const Tensors& saved, const at::Tensor& gradient) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  CrossEntropyTask task;
  task.compute = static_cast<at::ScalarType>(context.saved_data["compute"].toInt());
  const auto smoothing = context.saved_data["label_smoothing"].toDouble();
  const auto to = [](const at::Tensor& x, at::ScalarType dtype) {
    return x.defined() ? x.to(dtype) : x;
  };
  const auto hidden = to(saved[0], task.compute), weight = to(saved[1], task.compute),
             bias = to(saved[2], task.compute), target = saved[3].unsqueeze(1);
  const auto logits = at::linear(hidden, weight, bias).to(task.wide());
  const auto classes = static_cast<double>(weight.size(0));
  const auto target_p = at::full_like(logits, smoothing / classes)
                            .scatter_(1, target, 1 - smoothing + smoothing / classes);
  auto d = (at::softmax(logits, 1) - target_p) * gradient;
  if (context.saved_data["has_ignored"].toBool()) d = d * saved[4].unsqueeze(1);
  const auto narrow = d.to(task.compute);
  return {narrow.mm(weight).to(saved[0].scalar_type()),
          narrow.t().mm(hidden).to(saved[1].scalar_type()),
          saved[2].defined() ? d.sum(0).to(saved[2].scalar_type()) : at::Tensor(),
          {},
          {}};
}

}  // namespace ikebana::detail
