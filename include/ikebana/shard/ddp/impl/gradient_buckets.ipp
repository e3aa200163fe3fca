#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/ddp/gradient_buckets.hpp>
#include <map>

namespace ikebana::detail {

IKEBANA_INLINE double BucketPlan::bytes() const {
  return static_cast<double>(elements) * static_cast<double>(c10::elementSize(reduce_dtype));
}

IKEBANA_INLINE void BucketPlan::add(std::size_t master, std::int64_t count) {
  places.push_back({master, {elements, count}});
  elements += aligned(count);
}

IKEBANA_INLINE BucketRange BucketPlan::part(std::int64_t rank, std::int64_t ranks) const {
  const std::int64_t each = aligned((elements + ranks - 1) / ranks);
  const std::int64_t begin = std::min(rank * each, elements);
  return {begin, std::min(each, elements - begin)};
}

IKEBANA_INLINE at::Tensor BucketPlan::view(const at::Tensor& flat, std::size_t slot,
                                           const at::Tensor& master) const {
  return flat.as_strided(master.sizes(), master.strides(), places[slot].range.begin);
}

IKEBANA_INLINE std::vector<BucketPlan> plan_buckets(const Tensors& masters,
                                                    const std::vector<std::size_t>& order,
                                                    const BucketLimits& limits,
                                                    std::optional<at::ScalarType> reduce_dtype) {
  struct Open {
    BucketPlan plan;
    std::size_t last;  // position in `order` of what was added last
  };
  std::vector<Open> all;
  std::map<at::ScalarType, std::pair<std::size_t, double>> open;  // the bucket and its limit, by
                                                                  // dtype
  for (std::size_t at = 0; at < order.size(); ++at) {
    const at::Tensor& master = masters[order[at]];
    const at::ScalarType dtype = master.scalar_type();
    BucketPlan one{dtype, reduce_dtype && at::isFloatingType(dtype) ? *reduce_dtype : dtype};
    one.add(order[at], master.numel());
    const auto found = open.find(dtype);
    if (found != open.end()) {
      Open& bucket = all[found->second.first];
      if (bucket.plan.bytes() + one.bytes() <= found->second.second) {
        bucket.plan.add(order[at], master.numel());
        bucket.last = at;
        continue;
      }
    }
    open[dtype] = {all.size(), found == open.end() ? limits.first : limits.others};
    all.push_back({std::move(one), at});
  }
  std::sort(all.begin(), all.end(), [](const Open& a, const Open& b) { return a.last < b.last; });
  std::vector<BucketPlan> plans;
  for (Open& bucket : all) plans.push_back(std::move(bucket.plan));
  return plans;
}

IKEBANA_INLINE BucketReduction::BucketReduction(Connection& connection, std::size_t index,
                                                const BucketPlan& plan, at::Tensor flat,
                                                const GradientKinds& kinds, bool ordered)
    : plan_(plan),
      index_(index),
      flat_(std::move(flat)),
      rank_(connection.rank()),
      ranks_(connection.size()),
      ordered_(ordered) {
  begin_kinds(connection, kinds);
  if (ordered_) begin_parts(connection);
  else if (plan_.elements > 0)
    sums_ = connection.all_reduce(MessageTag::reduce(index_),
                                  flat_.is_complex() ? at::view_as_real(flat_) : flat_);
}

IKEBANA_INLINE void BucketReduction::spread(Connection& connection) {
  if (!ordered_) return;
  connection.wait_received(kinds_sent_);
  connection.wait_received(parts_);
  add_up();
  received_.clear();
  TensorsOfRanks to = of_ranks(), from = of_ranks();
  for (std::int64_t r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    to[index_of(r)] = {part(rank_)};
    from[index_of(r)] = {part(r)};
  }
  sums_ = connection.swap(MessageTag::spread(index_), to, from, flat_.device());
}

IKEBANA_INLINE const at::Tensor& BucketReduction::finish(Connection& connection) {
  connection.wait_received(kinds_sent_);
  connection.wait_received(sums_);
  return flat_;
}

IKEBANA_INLINE void BucketReduction::end(Connection& connection) {
  for (Transfer* transfer : {&kinds_sent_, &parts_, &sums_}) connection.wait(*transfer);
}

IKEBANA_INLINE bool BucketReduction::any_has(GradientKind kind, std::size_t slot) const {
  return first_with(kind, slot) < ranks_;
}

IKEBANA_INLINE std::int64_t BucketReduction::first_with(GradientKind kind, std::size_t slot) const {
  std::int64_t rank = 0;
  while (rank < ranks_ && kind_of(rank, slot) != kind) ++rank;
  return rank;
}

IKEBANA_INLINE at::Tensor BucketReduction::part(std::int64_t rank) const {
  const BucketRange range = plan_.part(rank, ranks_);
  return flat_.narrow(0, range.begin, range.count);
}

IKEBANA_INLINE GradientKind BucketReduction::kind_of(std::int64_t rank, std::size_t slot) const {
  return static_cast<const GradientKind*>(kinds_[index_of(rank)].const_data_ptr())[slot];
}

IKEBANA_INLINE bool BucketReduction::has(std::int64_t rank, std::size_t slot) const {
  return kind_of(rank, slot) == GradientKind::Dense;
}

IKEBANA_INLINE void BucketReduction::begin_kinds(Connection& connection,
                                                 const GradientKinds& kinds) {
  TensorsOfRanks to = of_ranks(), from = of_ranks();
  for (std::int64_t r = 0; r < ranks_; ++r)
    kinds_.push_back(at::empty({std::ssize(kinds)}, at::kByte));
  at::Tensor& own = kinds_[index_of(rank_)];
  std::memcpy(own.mutable_data_ptr(), kinds.data(), kinds.size());
  for (std::size_t r = 0; r < kinds_.size(); ++r)
    if (r != index_of(rank_)) to[r] = {own}, from[r] = {kinds_[r]};
  kinds_sent_ = connection.swap(MessageTag::reduce(index_) + 1, to, from, at::kCPU);
}

IKEBANA_INLINE void BucketReduction::begin_parts(Connection& connection) {
  TensorsOfRanks to = of_ranks(), from = of_ranks();
  const std::int64_t own = plan_.part(rank_, ranks_).count;
  received_.resize(index_of(ranks_));
  for (std::int64_t r = 0; r < ranks_; ++r) {
    if (r == rank_) continue;
    to[index_of(r)] = {part(r)};
    from[index_of(r)] = {received_[index_of(r)] = at::empty({own}, flat_.options())};
  }
  parts_ = connection.swap(MessageTag::reduce(index_), to, from, flat_.device());
}

IKEBANA_INLINE void BucketReduction::add_up() {
  const auto& places = plan_.places;
  const BucketRange own = plan_.part(rank_, ranks_);
  for (std::size_t first = 0, end; first < places.size(); first = end) {
    end = first + 1;
    while (end < places.size() && same_ranks(first, end)) ++end;
    const std::int64_t begin = std::max(places[first].range.begin, own.begin);
    const std::int64_t places_end = end < places.size() ? places[end].range.begin : plan_.elements;
    const std::int64_t count = std::min(places_end, own.begin + own.count) - begin;
    if (count > 0) add_up(first, begin, count, begin - own.begin);
  }
}

IKEBANA_INLINE bool BucketReduction::same_ranks(std::size_t a, std::size_t b) const {
  for (std::int64_t r = 0; r < ranks_; ++r)
    if (has(r, a) != has(r, b)) return false;
  return true;
}

IKEBANA_INLINE void BucketReduction::add_up(std::size_t slot, std::int64_t begin,
                                            std::int64_t count, std::int64_t in_part) {
  auto piece = [&](std::int64_t r) { return received_[index_of(r)].narrow(0, in_part, count); };
  at::Tensor sum = flat_.narrow(0, begin, count), before;
  for (std::int64_t r = 0; r < rank_; ++r)
    if (has(r, slot)) before = before.defined() ? before.add_(piece(r)) : piece(r);
  bool is_begun = has(rank_, slot);
  auto add = [&](const at::Tensor& one) {
    if (std::exchange(is_begun, true)) sum.add_(one);
    else sum.copy_(one);
  };
  if (before.defined()) add(before);
  for (std::int64_t r = rank_ + 1; r < ranks_; ++r)
    if (has(r, slot)) add(piece(r));
}

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
