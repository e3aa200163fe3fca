#pragma once
#include <algorithm>
#include <ikebana/bridge/custom_operator.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/modules/linear_cross_entropy.hpp>
#include <optional>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t CrossEntropyTask::rows_at_once(std::int64_t classes,
                                                           bool on_cpu) const {
  if (chunk_rows > 0) return chunk_rows;
  const auto row = classes * static_cast<std::int64_t>(c10::elementSize(wide()));
  const auto bytes = on_cpu ? logits_chunk_bytes : device_chunk_bytes;
  const auto steps = bytes / std::max<std::int64_t>(row * logits_rows_step, 1);
  return std::max<std::int64_t>(steps, 1) * logits_rows_step;
}

[[noreturn]] inline void refuse_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                              const at::Tensor& target, const std::string& why) {
  throw Error("linear_cross_entropy: hidden " + c10::str(hidden.sizes()) + ", weight " +
              c10::str(weight.sizes()) + ", target " + c10::str(target.sizes()) + ' ' + why);
}

/// Throws Error for a target that is no class. Reads the targets on the host.
inline void check_targets(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& target, const CrossEntropyTask& task) {
  const auto classes = weight.size(0);
  const auto wrong = (target.lt(0) | target.ge(classes)).logical_and_(task.kept);
  if (!wrong.any().item<bool>()) return;
  const auto first = target.masked_select(wrong)[0].item<std::int64_t>();
  refuse_cross_entropy(hidden, weight, target,
                       "with the target " + std::to_string(first) +
                           ", which is neither one of the " + std::to_string(classes) +
                           " classes nor ignore_index " + std::to_string(task.ignore_index) +
                           "; give classes from 0, or set ignore_index");
}

IKEBANA_INLINE ChunkedCrossEntropy::ChunkedCrossEntropy(const at::Tensor& hidden,
                                                        const at::Tensor& weight,
                                                        const at::Tensor& bias,
                                                        const at::Tensor& target,
                                                        const CrossEntropyTask& task)
    : task_(task),
      weight_(weight.to(task.compute)),
      bias_(bias.defined() ? bias.to(task.compute) : bias) {
  allocate(hidden.size(0), hidden.size(1));
  take_rows(hidden, target);
  const auto rows = hidden_.size(0), step = logits_.size(0);
  for (std::int64_t i = 0; i < rows; i += step) compute_chunk(i, std::min(step, rows - i));
  compute_sum();
  logits_ = scores_ = losses_ = hidden_ = at::Tensor();
  if (rows_.defined() && grad_hidden.defined()) spread_rows();
}

IKEBANA_INLINE void ChunkedCrossEntropy::allocate(std::int64_t rows, std::int64_t columns) {
  const auto narrow = weight_.options().requires_grad(false), wide = narrow.dtype(task_.wide());
  const auto classes = weight_.size(0);
  if (task_.needs_grad[0]) grad_hidden = at::empty({rows, columns}, narrow);
  if (task_.needs_grad[1]) grad_weight = at::zeros(weight_.sizes(), wide);
  if (task_.needs_grad[2]) grad_bias = at::zeros({classes}, wide);
  sum = at::empty({}, wide);
  const auto at_once = std::min(task_.rows_at_once(classes, weight_.is_cpu()), rows);
  logits_ = at::empty({at_once, classes}, narrow);
  scores_ = task_.wide() == task_.compute ? logits_ : at::empty(logits_.sizes(), wide);
  losses_ = at::empty({rows, 1}, wide);
}

IKEBANA_INLINE void ChunkedCrossEntropy::take_rows(const at::Tensor& hidden,
                                                   const at::Tensor& target) {
  hidden_ = hidden, target_ = target;
  if (task_.has_ignored && task_.on_host) {
    rows_ = task_.kept.nonzero().squeeze(1);
    if (rows_.size(0) == hidden.size(0)) rows_ = at::Tensor();
    else hidden_ = hidden.index_select(0, rows_), target_ = target.index_select(0, rows_);
  } else if (task_.masks()) {
    target_ = target.masked_fill(task_.kept.logical_not(), 0);
  }
  hidden_ = hidden_.to(task_.compute), target_ = target_.unsqueeze(1);
}

IKEBANA_INLINE void ChunkedCrossEntropy::compute_sum() {
  const auto losses = losses_.narrow(0, 0, hidden_.size(0));
  at::sum_out(sum, task_.masks() ? losses.mul(task_.kept.unsqueeze(1)) : losses, at::IntArrayRef());
}

IKEBANA_INLINE void ChunkedCrossEntropy::spread_rows() {
  const auto rows = grad_hidden.narrow(0, 0, rows_.size(0)).clone();
  grad_hidden.zero_().index_copy_(0, rows_, rows);
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
  if (task_.masks()) scores.mul_(part(task_.kept).unsqueeze(1));
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
  // Accumulates in FP32, because in half precision small products would be lost beside a large sum.
  const auto classes = grad_weight.size(0);
  const auto slice = std::max<std::int64_t>(half_slice_bytes / 2 / grad_weight.size(1), 1);
  for (std::int64_t i = 0; i < classes; i += slice) {
    const auto n = std::min(slice, classes - i);
    grad_weight.narrow(0, i, n).add_(at::mm(gradient.narrow(1, i, n).t(), hidden));
  }
}

IKEBANA_INLINE LinearCrossEntropy::Computed LinearCrossEntropy::compute(
    const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
    const at::Tensor& target, const CrossEntropyTask& task) {
  if (task.on_host) check_targets(hidden, weight, target, task);
  ChunkedCrossEntropy pass(hidden, weight, bias, target, task);
  const auto like = [](const at::Tensor& x, const at::Tensor& input) {
    return x.defined() ? x.to(input.scalar_type()) : x;
  };
  return {pass.sum, like(pass.grad_hidden, hidden), like(pass.grad_weight, weight),
          like(pass.grad_bias, bias)};
}

IKEBANA_INLINE LinearCrossEntropy::Computed LinearCrossEntropy::compute_on_host(
    const at::Tensor& hidden, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
    const at::Tensor& target, const at::Tensor& kept, std::int64_t ignore_index,
    double label_smoothing, std::int64_t chunk_rows, at::ScalarType compute_dtype,
    bool hidden_gradient, bool weight_gradient, bool bias_gradient) {
  const CrossEntropyTask task{.compute = compute_dtype,
                              .label_smoothing = label_smoothing,
                              .chunk_rows = chunk_rows,
                              .ignore_index = ignore_index,
                              .has_ignored = true,
                              .on_host = true,
                              .kept = kept,
                              .needs_grad = {hidden_gradient, weight_gradient, bias_gradient}};
  return compute(hidden, weight, bias.value_or(at::Tensor()), target, task);
}

IKEBANA_INLINE at::Tensor LinearCrossEntropy::forward(Context* context, const at::Tensor& hidden,
                                                      const at::Tensor& weight,
                                                      const std::optional<at::Tensor>& given_bias,
                                                      const at::Tensor& target,
                                                      const CrossEntropyTask& task) {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const auto bias = given_bias.value_or(at::Tensor());
  const auto [sum, grad_hidden, grad_weight, grad_bias] =
      recording() && task.on_host
          ? recorded_call<&compute_on_host>(
                "ikebana::linear_cross_entropy(Tensor hidden, Tensor weight, Tensor? bias, Tensor "
                "target, Tensor kept, int ignore_index, float label_smoothing, int chunk_rows, "
                "ScalarType compute, bool hidden_gradient, bool weight_gradient, bool "
                "bias_gradient) -> (Tensor, Tensor, Tensor, Tensor)",
                hidden, weight, given_bias, target, task.kept, task.ignore_index,
                task.label_smoothing, task.chunk_rows, task.compute, task.needs_grad[0],
                task.needs_grad[1], task.needs_grad[2])
          : compute(hidden, weight, bias, target, task);
  context->save_for_backward(
      {hidden, weight, bias, target, task.kept, grad_hidden, grad_weight, grad_bias});
  context->saved_data["has_ignored"] = task.has_ignored;
  context->saved_data["label_smoothing"] = task.label_smoothing;
  context->saved_data["compute"] = static_cast<std::int64_t>(task.compute);
  return sum;
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
             bias = to(saved[2], task.compute);
  const bool has_ignored = context.saved_data["has_ignored"].toBool();
  const auto& kept = saved[4];
  const auto target =
      (has_ignored ? saved[3].masked_fill(kept.logical_not(), 0) : saved[3]).unsqueeze(1);
  const auto logits = at::linear(hidden, weight, bias).to(task.wide());
  const auto classes = static_cast<double>(weight.size(0));
  const auto target_p = at::full_like(logits, smoothing / classes)
                            .scatter_(1, target, 1 - smoothing + smoothing / classes);
  auto d = (at::softmax(logits, 1) - target_p) * gradient;
  if (has_ignored) d = d * kept.unsqueeze(1);
  const auto narrow = d.to(task.compute);
  return {narrow.mm(weight).to(saved[0].scalar_type()),
          narrow.t().mm(hidden).to(saved[1].scalar_type()),
          saved[2].defined() ? d.sum(0).to(saved[2].scalar_type()) : at::Tensor(),
          {},
          {}};
}

IKEBANA_INLINE LinearCrossEntropyCall::LinearCrossEntropyCall(
    const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& target,
    const modules::LinearCrossEntropyOptions& o)
    : hidden_(hidden), weight_(weight), target_(target), options_(o) {
  check_tensors();
  check_sizes();
  check_options();
  target_ = target_.reshape({-1});
  hidden_ = hidden_.reshape({target_.numel(), hidden_.size(-1)});
}

IKEBANA_INLINE Loss LinearCrossEntropyCall::run() {
  CrossEntropyTask task;
  task.on_host = target_.is_cpu() && !without_values();
  task.kept = target_.ne(options_.ignore_index);
  const bool is_counted = readable(target_);
  const Count count =
      is_counted ? Count(task.kept.sum().item<std::int64_t>()) : Count(task.kept.sum());
  task.has_ignored = !is_counted || count.value() != static_cast<double>(target_.numel());
  task.ignore_index = options_.ignore_index;
  task.label_smoothing = options_.label_smoothing;
  task.chunk_rows = options_.chunk_rows;
  task.compute = compute_dtype();
  const auto needs_grad = [](const at::Tensor& x) {
    return at::GradMode::is_enabled() && x.defined() && x.requires_grad();
  };
  task.needs_grad = {needs_grad(hidden_), needs_grad(weight_), needs_grad(options_.bias)};
  const auto bias = options_.bias.defined() ? std::optional(options_.bias) : std::nullopt;
  return {LinearCrossEntropy::apply(hidden_, weight_, bias, target_, task), count};
}

IKEBANA_INLINE at::ScalarType LinearCrossEntropyCall::compute_dtype() const {
  const auto device = hidden_.device().type();
  const auto type = hidden_.scalar_type();
  if (!at::autocast::is_autocast_enabled(device) || type == at::kDouble) return type;
  return at::autocast::get_autocast_dtype(device);
}

IKEBANA_INLINE void LinearCrossEntropyCall::check_tensors() const {
  if (!hidden_.defined() || !weight_.defined() || !target_.defined())
    throw Error(
        "linear_cross_entropy: hidden, weight or target is an undefined tensor; pass all three");
  if (hidden_.device() != weight_.device() || hidden_.device() != target_.device())
    refuse("are on " + hidden_.device().str() + ", " + weight_.device().str() + " and " +
           target_.device().str() + "; move them to one device");
  if (!hidden_.is_floating_point() || !weight_.is_floating_point())
    refuse(std::string("are ") + c10::toString(hidden_.scalar_type()) + " and " +
           c10::toString(weight_.scalar_type()) + "; hidden and weight need a floating dtype");
  if (target_.scalar_type() != at::kLong)
    refuse(std::string("with target of ") + c10::toString(target_.scalar_type()) +
           "; it must hold class indices of dtype Long");
  const bool casts = at::autocast::is_autocast_enabled(hidden_.device().type()) &&
                     hidden_.scalar_type() != at::kDouble && weight_.scalar_type() != at::kDouble;
  if (hidden_.scalar_type() != weight_.scalar_type() && !casts)
    refuse(std::string("are ") + c10::toString(hidden_.scalar_type()) + " and " +
           c10::toString(weight_.scalar_type()) + "; give both one dtype, or use autocast");
}

IKEBANA_INLINE void LinearCrossEntropyCall::check_sizes() const {
  const auto h = hidden_.sizes(), w = weight_.sizes();
  if (h.empty() || w.size() != 2 || h.back() != w[1])
    refuse("do not fit: hidden is (..., E) and weight (V, E); give both the same E");
  if (h.slice(0, h.size() - 1) != target_.sizes())
    refuse("do not fit: target has the sizes of hidden without the last one; reshape it");
  const auto& bias = options_.bias;
  if (bias.defined() && (bias.dim() != 1 || bias.size(0) != w[0]))
    refuse("with bias " + c10::str(bias.sizes()) +
           "; it must be (V), one element per row of weight");
  if (bias.defined() && (bias.device() != weight_.device() || !bias.is_floating_point()))
    refuse(std::string("with a bias of ") + c10::toString(bias.scalar_type()) + " on " +
           bias.device().str() + "; it needs a floating dtype and weight's device");
}

IKEBANA_INLINE void LinearCrossEntropyCall::check_options() const {
  const auto& o = options_;
  if (!(o.label_smoothing >= 0 && o.label_smoothing <= 1))
    refuse("with label_smoothing " + c10::str(o.label_smoothing) + "; it must be from 0 to 1");
  if (o.chunk_rows < 0)
    refuse("with chunk_rows " + std::to_string(o.chunk_rows) +
           "; it must be 1 or more, or 0 for the default");
}

IKEBANA_INLINE void LinearCrossEntropyCall::refuse(const std::string& why) const {
  refuse_cross_entropy(hidden_, weight_, target_, why);
}

}  // namespace ikebana::detail

namespace ikebana::modules {

IKEBANA_INLINE Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                         const at::Tensor& target,
                                         const LinearCrossEntropyOptions& options) {
  return detail::LinearCrossEntropyCall(hidden, weight, target, options).run();
}

}  // namespace ikebana::modules
