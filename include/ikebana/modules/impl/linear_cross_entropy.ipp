#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>
#include <ikebana/modules/chunked_cross_entropy.hpp>
#include <ikebana/modules/linear_cross_entropy.hpp>
#include <optional>

namespace ikebana::detail {

IKEBANA_INLINE LinearCrossEntropyCall::LinearCrossEntropyCall(
    const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& target,
    const modules::LinearCrossEntropyOptions& o)
    : hidden_(hidden), weight_(weight), target_(target), options_(o) {
  check_tensors();
  check_sizes();
  check_options();
  target_ = target_.reshape({-1});
  hidden_ = hidden_.reshape({target_.numel(), hidden_.size(-1)});
  on_cpu_ = readable(target_);
  kept_ = target_.ne(options_.ignore_index);
  count_ = on_cpu_ ? Count(kept_.sum().item<std::int64_t>()) : Count(kept_.sum());
  if (on_cpu_) check_targets();
}

IKEBANA_INLINE Loss LinearCrossEntropyCall::run() {
  CrossEntropyTask task;
  task.has_ignored = !on_cpu_ || count_.value() != static_cast<double>(target_.numel());
  // On the CPU ignored rows are left out of the products; on a device that would wait for it.
  if (task.has_ignored && on_cpu_) {
    const auto rows = kept_.nonzero().squeeze(1);
    hidden_ = hidden_.index_select(0, rows);
    target_ = target_.index_select(0, rows);
    task.has_ignored = false;
  }
  if (task.has_ignored) target_ = target_.masked_fill(kept_.logical_not(), 0), task.kept = kept_;
  task.label_smoothing = options_.label_smoothing;
  task.chunk_rows = options_.chunk_rows;
  task.compute = compute_dtype();
  const auto needs_grad = [](const at::Tensor& x) {
    return at::GradMode::is_enabled() && x.defined() && x.requires_grad();
  };
  task.needs_grad = {needs_grad(hidden_), needs_grad(weight_), needs_grad(options_.bias)};
  const auto bias = options_.bias.defined() ? std::optional(options_.bias) : std::nullopt;
  return {LinearCrossEntropy::apply(hidden_, weight_, bias, target_, task), count_};
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

IKEBANA_INLINE void LinearCrossEntropyCall::check_targets() const {
  if (count_.value() == 0) return;
  const auto classes = weight_.size(0);
  const auto wrong = (target_.lt(0) | target_.ge(classes)).logical_and_(kept_);
  if (!wrong.any().item<bool>()) return;
  const auto first = target_.masked_select(wrong)[0].item<std::int64_t>();
  refuse("with the target " + std::to_string(first) + ", which is neither one of the " +
         std::to_string(classes) + " classes nor ignore_index " +
         std::to_string(options_.ignore_index) + "; give classes from 0, or set ignore_index");
}

IKEBANA_INLINE void LinearCrossEntropyCall::refuse(const std::string& why) const {
  throw Error("linear_cross_entropy: hidden " + c10::str(hidden_.sizes()) + ", weight " +
              c10::str(weight_.sizes()) + ", target " + c10::str(target_.sizes()) + ' ' + why);
}

}  // namespace ikebana::detail

namespace ikebana::modules {

IKEBANA_INLINE Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                         const at::Tensor& target,
                                         const LinearCrossEntropyOptions& options) {
  return detail::LinearCrossEntropyCall(hidden, weight, target, options).run();
}

}  // namespace ikebana::modules
