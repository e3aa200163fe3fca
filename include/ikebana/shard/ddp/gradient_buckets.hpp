#pragma once
// The gradients of a backward pass, reduced bucket by bucket while it runs.
#include <deque>
#include <ikebana/shard/ddp/bucket_reduction.hpp>

namespace ikebana::detail {

/// A bucket of this rank: its gradients arrive in any order, and then it is reduced.
class GradientBucket {
 public:
  GradientBucket(std::size_t index, BucketPlan plan) : index_(index), plan_(std::move(plan)) {}

  const BucketPlan& plan() const { return plan_; }
  bool is_begun() const { return reduction_.has_value(); }
  bool is_complete() const { return waits_for_ == 0; }
  /// A backward pass is to come whose gradients are reduced.
  void open(const Tensors& masters);
  /// The gradient has arrived. Returns whether it is the last one of the bucket.
  bool arrive(std::size_t slot, const at::Tensor& master);
  /// Begins to reduce. What earlier microbatches have left belongs to it.
  void begin(Connection& connection, const Masters& masters, bool ordered);
  void spread(Connection& connection) { reduction_->spread(connection); }
  /// Waits; each master then has the sum, or none where no rank has a gradient. Adds to `sparse`
  /// those whose gradient is a sparse one on some rank, which remain as they are.
  void finish(Connection& connection, const Masters& masters, std::vector<std::size_t>& sparse);
  /// All ranks have finished: their gradients may be written.
  void end(Connection& connection);
  void forget() noexcept;
  [[noreturn]] static void refuse_mixed(const std::string& name, std::int64_t sparse,
                                        std::int64_t dense);

 private:
  [[noreturn]] static void refuse_written(const std::string& name);
  /// Whether the master has a gradient again, after it was moved to the bucket.
  bool is_written(std::size_t slot, const at::Tensor& master) const;
  const at::Tensor& memory(const at::Tensor& master);
  /// Moves the gradient to the bucket, or adds it to what is there.
  void take(std::size_t slot, const at::Tensor& master);

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
                  bool ordered);
  /// Before a backward pass whose gradients are reduced.
  void open();
  /// A master's gradient has been accumulated. Throws BadModel where its bucket has begun.
  void arrive(std::size_t master);
  /// Reduces what is left, and waits for all. Returns the masters whose gradients are sparse on
  /// some rank, the same ones on all ranks.
  std::vector<std::size_t> finish();
  /// All ranks have finished.
  void end();
  void forget() noexcept;

 private:
  struct Home {
    std::size_t bucket, slot;
  };
  void begin_next();
  [[noreturn]] static void refuse_late(const std::string& name);

  Connection& connection_;
  const Masters& masters_;
  std::deque<GradientBucket> buckets_;
  std::vector<std::optional<Home>> homes_;  // by master; none: it is in no bucket
  bool ordered_;
  std::size_t next_ = 0;  // the first that has not begun
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/ddp/impl/gradient_buckets.ipp>
#endif
