#pragma once
// The gradients of a backward pass, reduced bucket by bucket while it runs.
#include <deque>
#include <ikebana/error.hpp>
#include <ikebana/shard/bucket_reduction.hpp>

namespace ikebana::detail {

/// A bucket of this rank: its gradients arrive in any order, and then it is reduced.
class GradientBucket {
 public:
  GradientBucket(std::size_t index, BucketPlan plan) : index_(index), plan_(std::move(plan)) {}

  const BucketPlan& plan() const { return plan_; }
  bool is_begun() const { return reduction_.has_value(); }
  bool is_complete() const { return waits_for_ == 0; }
  /// A backward pass is to come whose gradients are reduced.
  void open(const Tensors& masters) {
    forget();
    kinds_.assign(plan_.places.size(), GradientKind::Absent);
    has_arrived_.assign(plan_.places.size(), false);
    waits_for_ = 0;
    for (const auto& slot : plan_.places) waits_for_ += masters[slot.master].requires_grad();
  }
  /// The gradient has arrived. Returns whether it is the last one of the bucket.
  bool arrive(std::size_t slot, const at::Tensor& master) {
    take(slot, master);
    if (!master.requires_grad() || has_arrived_[slot]) return false;
    has_arrived_[slot] = true;
    return --waits_for_ == 0;
  }
  /// Begins to reduce. What earlier microbatches have left belongs to it.
  void begin(Connection& connection, const Masters& masters, bool ordered) {
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
  void spread(Connection& connection) { reduction_->spread(connection); }
  /// Waits; each master then has the sum, or none where no rank has a gradient. Adds to `sparse`
  /// those whose gradient is a sparse one on some rank, which remain as they are.
  void finish(Connection& connection, const Masters& masters, std::vector<std::size_t>& sparse) {
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
  /// All ranks have finished: their gradients may be written.
  void end(Connection& connection) {
    reduction_->end(connection);
    reduction_.reset();
  }
  void forget() noexcept {
    reduction_.reset();
    flat_.reset();
  }
  [[noreturn]] static void refuse_mixed(const std::string& name, std::int64_t sparse,
                                        std::int64_t dense) {
    throw BadModel("step: the gradient of `" + name + "` is sparse on rank " +
                   std::to_string(sparse) + " and dense on rank " + std::to_string(dense) +
                   ". Make it the same on every rank, as by the option `sparse` of an embedding.");
  }

 private:
  [[noreturn]] static void refuse_written(const std::string& name) {
    throw BadModel("step: the gradient of `" + name +
                   "` was written after it had been handed over to be summed over ranks, as by a "
                   "hook that was registered after the trainer was made. Register it before, or "
                   "write a policy on clip, which sees the sums.");
  }
  /// Whether the master has a gradient again, after it was moved to the bucket.
  bool is_written(std::size_t slot, const at::Tensor& master) const {
    return kinds_[slot] != GradientKind::Sparse && master.grad().defined();
  }
  const at::Tensor& memory(const at::Tensor& master) {
    if (!flat_.defined())
      flat_ = at::empty({plan_.elements},
                        master.options().dtype(plan_.reduce_dtype).requires_grad(false));
    return flat_;
  }
  /// Moves the gradient to the bucket, or adds it to what is there.
  void take(std::size_t slot, const at::Tensor& master) {
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

  std::size_t index_;
  BucketPlan plan_;
  GradientKinds kinds_;            // of this rank
  std::vector<bool> has_arrived_;  // in this backward pass
  std::int64_t waits_for_ = 0;     // gradients that are to arrive
  at::Tensor flat_;                // until the reduction has it
  std::optional<BucketReduction> reduction_;
};
/// All buckets of a trainer, which are begun in their order, so that messages of all ranks meet.
/// In the order of ranks, one bucket at a time has memory for what it receives: the next one begins
/// when this one's part is added up, for which backward has given it time.
class GradientBuckets {
 public:
  GradientBuckets(Connection& connection, const Masters& masters, std::vector<BucketPlan> plans,
                  bool ordered)
      : connection_(connection),
        masters_(masters),
        homes_(masters.values.size()),
        ordered_(ordered) {
    for (auto& plan : plans) {
      for (std::size_t i = 0; i < plan.places.size(); ++i)
        homes_[plan.places[i].master] = Home{buckets_.size(), i};
      buckets_.emplace_back(buckets_.size(), std::move(plan));
    }
  }
  /// Before a backward pass whose gradients are reduced.
  void open() {
    next_ = 0;
    for (GradientBucket& bucket : buckets_) bucket.open(masters_.values);
  }
  /// A master's gradient has been accumulated. Throws BadModel where its bucket has begun.
  void arrive(std::size_t master) {
    const std::optional<Home>& home = homes_[master];
    if (!home) return;
    GradientBucket& bucket = buckets_[home->bucket];
    if (bucket.is_begun()) refuse_late(masters_.names[master]);
    if (!bucket.arrive(home->slot, masters_.values[master])) return;
    while (next_ < buckets_.size() && buckets_[next_].is_complete()) begin_next();
  }
  /// Reduces what is left, and waits for all. Returns the masters whose gradients are sparse on
  /// some rank, the same ones on all ranks.
  std::vector<std::size_t> finish() {
    while (next_ < buckets_.size()) begin_next();
    if (!buckets_.empty()) buckets_.back().spread(connection_);
    std::vector<std::size_t> sparse;
    for (GradientBucket& bucket : buckets_) bucket.finish(connection_, masters_, sparse);
    return sparse;
  }
  /// All ranks have finished.
  void end() {
    for (GradientBucket& bucket : buckets_) bucket.end(connection_);
  }
  void forget() noexcept {
    for (GradientBucket& bucket : buckets_) bucket.forget();
  }

 private:
  struct Home {
    std::size_t bucket, slot;
  };
  void begin_next() {
    if (next_ > 0) buckets_[next_ - 1].spread(connection_);
    buckets_[next_++].begin(connection_, masters_, ordered_);
  }
  [[noreturn]] static void refuse_late(const std::string& name) {
    throw BadModel("step: `" + name +
                   "` got a gradient after its gradient had been summed over ranks, as by a "
                   "backward pass within the loss. Let the loss compute gradients of its inputs "
                   "alone: torch::autograd::grad.");
  }

  Connection& connection_;
  const Masters& masters_;
  std::deque<GradientBucket> buckets_;
  std::vector<std::optional<Home>> homes_;  // by master; none: it is in no bucket
  bool ordered_;
  std::size_t next_ = 0;  // the first that has not begun
};

}  // namespace ikebana::detail
