#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/ddp/gradient_buckets.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void GradientBucket::open(const Tensors& masters) {
  forget();
  kinds_.assign(plan_.places.size(), GradientKind::Absent);
  has_arrived_.assign(plan_.places.size(), false);
  waits_for_ = 0;
  for (const auto& slot : plan_.places) waits_for_ += masters[slot.master].requires_grad();
}

IKEBANA_INLINE bool GradientBucket::arrive(std::size_t slot, const at::Tensor& master) {
  take(slot, master);
  if (!master.requires_grad() || has_arrived_[slot]) return false;
  has_arrived_[slot] = true;
  return --waits_for_ == 0;
}

IKEBANA_INLINE void GradientBucket::begin(Connection& connection, const Masters& masters,
                                          bool ordered) {
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    const at::Tensor& master = masters.values[plan_.places[i].master];
    if (!has_arrived_[i]) take(i, master);
    else if (is_written(i, master)) refuse_written(masters.names[plan_.places[i].master]);
    const BucketRange range = plan_.places[i].range;
    if (kinds_[i] != GradientKind::Dense)
      memory(master).narrow(0, range.begin, range.count).zero_();
  }
  reduction_.emplace(connection, index_, plan_, std::exchange(flat_, {}), kinds_, ordered);
}

IKEBANA_INLINE void GradientBucket::finish(Connection& connection, const Masters& masters,
                                           std::vector<std::size_t>& sparse) {
  at::Tensor flat = reduction_->finish(connection);
  if (plan_.dtype != plan_.reduce_dtype) flat = flat.to(plan_.dtype);
  for (std::size_t i = 0; i < plan_.places.size(); ++i) {
    const std::size_t k = plan_.places[i].master;
    const auto dense = reduction_->first_with(GradientKind::Dense, i),
               other = reduction_->first_with(GradientKind::Sparse, i);
    if (other < connection.size()) {
      if (dense < connection.size()) refuse_mixed(masters.names[k], other, dense);
      sparse.push_back(k);
      continue;
    }
    const at::Tensor& master = masters.values[k];
    if (is_written(i, master)) refuse_written(masters.names[k]);
    if (dense < connection.size()) master.mutable_grad() = plan_.view(flat, i, master);
  }
}

IKEBANA_INLINE void GradientBucket::end(Connection& connection) {
  reduction_->end(connection);
  reduction_.reset();
}

IKEBANA_INLINE void GradientBucket::forget() noexcept {
  reduction_.reset();
  flat_.reset();
}

IKEBANA_INLINE void GradientBucket::refuse_mixed(const std::string& name, std::int64_t sparse,
                                                 std::int64_t dense) {
  throw BadModel("step: the gradient of `" + name + "` is sparse on rank " +
                 std::to_string(sparse) + " and dense on rank " + std::to_string(dense) +
                 ". Make it the same on every rank, as by the option `sparse` of an embedding.");
}

IKEBANA_INLINE void GradientBucket::refuse_written(const std::string& name) {
  throw BadModel("step: the gradient of `" + name +
                 "` was written after it had been handed over to be summed over ranks, as by a "
                 "hook that was registered after the trainer was made. Register it before, or "
                 "write a policy on clip, which sees the sums.");
}

IKEBANA_INLINE bool GradientBucket::is_written(std::size_t slot, const at::Tensor& master) const {
  return kinds_[slot] != GradientKind::Sparse && master.grad().defined();
}

IKEBANA_INLINE const at::Tensor& GradientBucket::memory(const at::Tensor& master) {
  if (!flat_.defined())
    flat_ = at::empty({plan_.elements},
                      master.options().dtype(plan_.reduce_dtype).requires_grad(false));
  return flat_;
}

IKEBANA_INLINE void GradientBucket::take(std::size_t slot, const at::Tensor& master) {
  at::Tensor& gradient = master.mutable_grad();
  if (!gradient.defined()) return;
  if (gradient.is_sparse()) return void(kinds_[slot] = GradientKind::Sparse);
  if (gradient.layout() != at::kStrided)
    throw BadModel(c10::str("step: a gradient has the layout ", gradient.layout(),
                            ", which is not summed over ranks. Make it dense, or sparse COO."));
  const at::Tensor place = plan_.view(memory(master), slot, master);
  if (kinds_[slot] == GradientKind::Dense) place.add_(gradient);
  else place.copy_(gradient);
  kinds_[slot] = GradientKind::Dense;
  gradient.reset();
}

IKEBANA_INLINE GradientBuckets::GradientBuckets(Connection& connection, const Masters& masters,
                                                std::vector<BucketPlan> plans, bool ordered)
    : connection_(connection), masters_(masters), homes_(masters.values.size()), ordered_(ordered) {
  for (auto& plan : plans) {
    for (std::size_t i = 0; i < plan.places.size(); ++i)
      homes_[plan.places[i].master] = Home{buckets_.size(), i};
    buckets_.emplace_back(buckets_.size(), std::move(plan));
  }
}

IKEBANA_INLINE void GradientBuckets::open() {
  next_ = 0;
  for (GradientBucket& bucket : buckets_) bucket.open(masters_.values);
}

IKEBANA_INLINE void GradientBuckets::arrive(std::size_t master) {
  const std::optional<Home>& home = homes_[master];
  if (!home) return;
  GradientBucket& bucket = buckets_[home->bucket];
  if (bucket.is_begun()) refuse_late(masters_.names[master]);
  if (!bucket.arrive(home->slot, masters_.values[master])) return;
  while (next_ < buckets_.size() && buckets_[next_].is_complete()) begin_next();
}

IKEBANA_INLINE std::vector<std::size_t> GradientBuckets::finish() {
  while (next_ < buckets_.size()) begin_next();
  if (!buckets_.empty()) buckets_.back().spread(connection_);
  std::vector<std::size_t> sparse;
  for (GradientBucket& bucket : buckets_) bucket.finish(connection_, masters_, sparse);
  return sparse;
}

IKEBANA_INLINE void GradientBuckets::end() {
  for (GradientBucket& bucket : buckets_) bucket.end(connection_);
}

IKEBANA_INLINE void GradientBuckets::forget() noexcept {
  for (GradientBucket& bucket : buckets_) bucket.forget();
}

IKEBANA_INLINE void GradientBuckets::begin_next() {
  if (next_ > 0) buckets_[next_ - 1].spread(connection_);
  buckets_[next_++].begin(connection_, masters_, ordered_);
}

IKEBANA_INLINE void GradientBuckets::refuse_late(const std::string& name) {
  throw BadModel("step: `" + name +
                 "` got a gradient after its gradient had been summed over ranks, as by a "
                 "backward pass within the loss. Let the loss compute gradients of its inputs "
                 "alone: torch::autograd::grad.");
}

}  // namespace ikebana::detail
