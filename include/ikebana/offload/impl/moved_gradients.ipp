#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/offload/moved_gradients.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void MovedGradients::begin(const Masters& masters, std::size_t units) {
  masters_ = masters.values, kept_.resize(masters_.size());
  of_unit_.assign(units, {});
  for (std::size_t k = 0; k < masters_.size(); ++k)
    of_unit_[masters.slices[k].unit].masters.push_back({masters.names[k], k});
  for (std::size_t k = 0; reuses_ && k < masters_.size(); ++k)
    kept_[k] =
        memory_->allocate(masters_[k].sizes(), masters_[k].strides(), masters_[k].scalar_type());
}

IKEBANA_INLINE Tensors MovedGradients::move(const Unit& unit, Tensors gradients) {
  const bool is_whole = has_one_use(unit);
  Moving moving;
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const std::size_t k = index_of(unit, unit.names[i]);
    if (is_whole && adds_at_once(gradients[i], k)) {
      count(gradients[i]), add(gradients[i], k), gradients[i].reset();
      continue;
    }
    at::Tensor there = moved(gradients[i], k, moving.copied);
    if (!is_whole || !is_late(k) || !moving.copied)
      moving.copied.synchronize(), gradients[i] = there;
    else moving.all.push_back({k, there, std::exchange(gradients[i], {})});
  }
  if (!moving.all.empty()) moving_.push_back(std::move(moving));
  // When the copy that was awaited has ended, so have all earlier ones: their gradients are
  // accumulated first.
  while (!moving_.empty() && moving_.front().copied.query()) accumulate_first();
  return gradients;
}

IKEBANA_INLINE at::Tensor MovedGradients::move(const at::Tensor& gradient, std::size_t k) {
  if (adds_at_once(gradient, k)) return count(gradient), add(gradient, k), at::Tensor();
  Moving moving;
  at::Tensor there = moved(gradient, k, moving.copied);
  if (!is_late(k) || !moving.copied) return moving.copied.synchronize(), there;
  moving.all.push_back({k, std::move(there), gradient});
  moving_.push_back(std::move(moving));
  return {};
}

IKEBANA_INLINE void MovedGradients::finish() {
  while (!moving_.empty()) moving_.front().copied.synchronize(), accumulate_first();
}

IKEBANA_INLINE void MovedGradients::abort() noexcept {
  for (const Moving& moving : moving_) moving.copied.synchronize_quietly();
  moving_.clear();
}

IKEBANA_INLINE void MovedGradients::begin_step() noexcept {
  bytes = copies = 0;
  for (OfUnit& unit : of_unit_) unit.uses = unit.calls = 0;
}

IKEBANA_INLINE bool MovedGradients::has_one_use(const Unit& unit) noexcept {
  OfUnit& own = of_unit_[unit.index];
  const bool only = unit.is_root() || (own.uses == 1 && own.calls == 0);
  if (++own.calls == own.uses) own.uses = own.calls = 0;
  return only;
}

IKEBANA_INLINE std::size_t MovedGradients::index_of(const Unit& unit,
                                                    const std::string& name) const {
  for (const auto& [own, k] : of_unit_[unit.index].masters)
    if (own == name) return k;
  return masters_.size();
}

IKEBANA_INLINE bool MovedGradients::is_late(std::size_t k) const {
  return copies_.overlap() && k < masters_.size() && !bridge::has_gradient_hooks(masters_[k]);
}

IKEBANA_INLINE bool MovedGradients::adds_at_once(const at::Tensor& gradient, std::size_t k) const {
  if (copies_.overlap() || k >= masters_.size() || !masters_[k].grad().defined()) return false;
  const at::Tensor& sum = masters_[k].grad();
  return !bridge::has_gradient_hooks(masters_[k]) && gradient.layout() == at::kStrided &&
         sum.layout() == at::kStrided && gradient.scalar_type() == sum.scalar_type();
}

IKEBANA_INLINE void MovedGradients::count(const at::Tensor& gradient) noexcept {
  bytes += static_cast<std::int64_t>(gradient.nbytes()), ++copies;
}

IKEBANA_INLINE void MovedGradients::add(const at::Tensor& gradient, std::size_t k) {
  const at::NoGradGuard no_grad;
  at::Tensor& sum = masters_[k].mutable_grad();
  memory_->populate_pages(sum, /*writes=*/true);
  sum.add_(gradient);
  memory_->release_pages(sum);
}

IKEBANA_INLINE at::Tensor MovedGradients::moved(const at::Tensor& gradient, std::size_t k,
                                                bridge::StreamEvent& copied) {
  if (gradient.layout() != at::kStrided) return gradient.to(at::kCPU);
  count(gradient);
  const at::Tensor there = memory_for(gradient, k);
  memory_->populate_pages(there, /*writes=*/true);
  copied = copies_.to_host(there, gradient);
  if (!copies_.overlap()) memory_->release_pages(there);
  return there;
}

IKEBANA_INLINE at::Tensor MovedGradients::memory_for(const at::Tensor& gradient, std::size_t k) {
  const at::Tensor& like = k < masters_.size() ? masters_[k] : gradient;
  auto make = [&] {
    return memory_->allocate(like.sizes(), like.strides(), gradient.scalar_type());
  };
  if (!reuses_ || k >= masters_.size()) return make();
  at::Tensor& kept = kept_[k];
  if (!kept.defined() || kept.scalar_type() != gradient.scalar_type()) kept = make();
  if (kept.storage().use_count() == 1) return kept.variable_data();
  return copies_.host_memory(like.sizes(), like.strides(), gradient.scalar_type());
}

IKEBANA_INLINE void MovedGradients::accumulate_first() {
  const Moving moving = std::move(moving_.front());
  moving_.pop_front();
  for (const One& one : moving.all) {
    at::Tensor& gradient = masters_[one.master].mutable_grad();
    if (gradient.defined()) add(one.there, one.master);
    else gradient = one.there, memory_->release_pages(gradient);
  }
}

}  // namespace ikebana::detail
