#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/pieces/grad_scaler.hpp>

namespace ikebana::pieces {

IKEBANA_INLINE GradScaler::GradScaler(Precision<FP16> values) : mechanism_(values) {}

IKEBANA_INLINE at::Tensor GradScaler::scale(const at::Tensor& loss) {
  deferred_.check();
  if (!is_attached_) mechanism_.attach(loss.device(), UnitTable());
  is_attached_ = true;
  return mechanism_.scale(loss.scalar_type() == at::kDouble ? loss : loss.to(at::kFloat));
}

IKEBANA_INLINE void GradScaler::unscale(const Tensors& parameters) {
  if (is_unscaled_)
    throw Error(
        "GradScaler: the gradients of this step have been unscaled before. Call unscale once, and "
        "update at the end of each step.");
  const at::NoGradGuard no_grad;
  const OneRank ranks;
  gradients_.collect(parameters);
  if (!is_attached_ || gradients_.values.empty())
    throw Error(
        "GradScaler: no parameter has a gradient of a scaled loss. Call scale(loss).backward() "
        "before, with a loss that depends on these parameters.");
  mechanism_.unscale(gradients_);
  mechanism_.accept(gradients_, LossValue(), ranks, deferred_);
  ikebana::detail::finish_gradients(gradients_, parameters);
  is_unscaled_ = true;
}

IKEBANA_INLINE void GradScaler::update() {
  if (!is_unscaled_)
    throw Error("GradScaler: update was called before step. Call scale, step and update in turn.");
  const at::NoGradGuard no_grad;
  Report report;
  mechanism_.end_step(gradients_, report);
  gradients_ = {};
  is_unscaled_ = false;
}

IKEBANA_INLINE double GradScaler::loss_scale() const {
  return is_attached_ ? mechanism_.loss_scale() : mechanism_.values.init_scale;
}

}  // namespace ikebana::pieces
