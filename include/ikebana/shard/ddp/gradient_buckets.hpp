#pragma once
// Buckets of gradients: decides which gradients are reduced together, and sums each bucket over
// ranks while backward runs.
#include <deque>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/shard/group/connection.hpp>
#include <optional>

namespace ikebana::detail {

/// A range of elements of a bucket.
struct BucketRange {
  std::int64_t begin = 0, count = 0;
};

/// The plan of one bucket. Its gradients have one dtype, lie one after the other at multiples of 16
/// elements, and each has the memory order of its parameter.
struct BucketPlan {
  struct Slot {
    std::size_t master;
    BucketRange range;
  };
  at::ScalarType dtype, reduce_dtype;  // the dtype of the gradients, and the dtype of their sums
  std::vector<Slot> places = {};
  std::int64_t elements = 0;

  static std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }
  double bytes() const;
  void add(std::size_t master, std::int64_t count);
  /// Returns the elements that this one of `ranks` ranks adds up.
  BucketRange part(std::int64_t rank, std::int64_t ranks) const;
  /// Returns the gradient in that slot, which shares the memory of `flat`.
  at::Tensor view(const at::Tensor& flat, std::size_t slot, const at::Tensor& master) const;
};

/// The most bytes of a bucket, unless one gradient has more: for the first bucket of a dtype, which
/// backward fills first, and for the others.
struct BucketLimits {
  double first, others;
};

/// Plans buckets of the masters in `order`, and fills each before the next one. They are returned
/// in the order in which a backward pass that makes the gradients in `order` completes them.
std::vector<BucketPlan> plan_buckets(const Tensors& masters, const std::vector<std::size_t>& order,
                                     const BucketLimits& limits,
                                     std::optional<at::ScalarType> reduce_dtype);

/// The kind of gradient that a rank has for a parameter. A sparse one stays outside of its bucket.
enum class GradientKind : std::uint8_t { Absent, Dense, Sparse };
using GradientKinds = std::vector<GradientKind>;

/// The sum of one bucket over ranks, in place: N ranks each send and receive 2 (N - 1) / N of its
/// bytes. If `ordered`, each rank adds up one part of the bucket in the order of ranks, and has
/// memory for that part of all other ranks until `spread`; a rank that has no gradient adds
/// nothing. Otherwise the backend's all-reduce adds up in an order of its own, and such a rank adds
/// zeros.
class BucketReduction {
 public:
  /// Begins the reduction. Places of `flat` without a dense gradient are not used, but must be
  /// finite.
  BucketReduction(Connection& connection, std::size_t index, const BucketPlan& plan,
                  at::Tensor flat, const GradientKinds& kinds, bool ordered);
  /// Waits for this rank's part from all ranks, adds up, and begins to send the sums. The sums
  /// replace what this rank sent for the other parts, since a rank sends its sums after it has
  /// received that.
  void spread(Connection& connection);
  /// Waits for the sums of the whole bucket. `spread` must be called before.
  const at::Tensor& finish(Connection& connection);
  /// Is called when all ranks have finished: the bucket's memory is no longer read.
  void end(Connection& connection);
  /// Returns true if any rank has such a gradient in that slot. It is known after `spread` or
  /// `finish`.
  bool any_has(GradientKind kind, std::size_t slot) const;
  /// Returns the first rank that has such a gradient there, or the number of ranks if no rank has
  /// one.
  std::int64_t first_with(GradientKind kind, std::size_t slot) const;

 private:
  static std::size_t index_of(std::int64_t rank) { return static_cast<std::size_t>(rank); }
  TensorsOfRanks of_ranks() const { return TensorsOfRanks(index_of(ranks_)); }
  at::Tensor part(std::int64_t rank) const;
  GradientKind kind_of(std::int64_t rank, std::size_t slot) const;
  bool has(std::int64_t rank, std::size_t slot) const;

  void begin_kinds(Connection& connection, const GradientKinds& kinds);
  void begin_parts(Connection& connection);
  /// Adds up this rank's part. Adjacent slots for which the same ranks have a gradient are added up
  /// in one pass.
  void add_up();
  bool same_ranks(std::size_t a, std::size_t b) const;
  /// Adds up in the order of ranks. Since a + b equals b + a to the bit, it adds the sum of the
  /// earlier ranks to the values of this one.
  void add_up(std::size_t slot, std::int64_t begin, std::int64_t count, std::int64_t in_part);

  const BucketPlan& plan_;
  std::size_t index_;
  at::Tensor flat_;
  std::int64_t rank_, ranks_;
  bool ordered_;
  std::vector<at::Tensor> kinds_;     // one tensor a rank, one byte a slot
  std::vector<at::Tensor> received_;  // this rank's part from each rank
  Transfer kinds_sent_, parts_, sums_;
};

/// A bucket of this rank. Its gradients arrive in any order, and then it is reduced.
class GradientBucket {
 public:
  GradientBucket(std::size_t index, BucketPlan plan) : index_(index), plan_(std::move(plan)) {}

  const BucketPlan& plan() const { return plan_; }
  bool is_begun() const { return reduction_.has_value(); }
  bool is_complete() const { return waits_for_ == 0; }
  /// Prepares for a backward pass whose gradients are reduced.
  void open(const Tensors& masters);
  /// Takes a gradient that has arrived. Returns true if it is the last one of the bucket.
  bool arrive(std::size_t slot, const at::Tensor& master);
  /// Begins to reduce, also what earlier microbatches have accumulated.
  void begin(Connection& connection, const Masters& masters, bool ordered);
  void spread(Connection& connection) { reduction_->spread(connection); }
  /// Waits; each master then has the sum, or no gradient if no rank has one. Adds to `sparse` the
  /// masters whose gradient is sparse on some rank, and leaves them as they are.
  void finish(Connection& connection, const Masters& masters, std::vector<std::size_t>& sparse);
  /// Is called when all ranks have finished: gradients may be written from then on.
  void end(Connection& connection);
  void forget() noexcept;
  [[noreturn]] static void refuse_mixed(const std::string& name, std::int64_t sparse,
                                        std::int64_t dense);

 private:
  [[noreturn]] static void refuse_written(const std::string& name);
  /// Returns true if the master has a gradient again after its gradient was moved to the bucket.
  bool is_written(std::size_t slot, const at::Tensor& master) const;
  const at::Tensor& memory(const at::Tensor& master);
  /// Moves the gradient to the bucket, or adds it to the one that is there.
  void take(std::size_t slot, const at::Tensor& master);

  std::size_t index_;
  BucketPlan plan_;
  GradientKinds kinds_;            // the kinds of this rank
  std::vector<bool> has_arrived_;  // in this backward pass
  std::int64_t waits_for_ = 0;     // gradients that have not arrived
  at::Tensor flat_;                // moved to the reduction when that begins
  std::optional<BucketReduction> reduction_;
};
/// All buckets of a trainer. They begin in their order, so that messages of all ranks meet. If
/// `ordered`, one bucket at a time has memory for what it receives: the next one begins when this
/// one's part is added up, for which backward has given it time.
class GradientBuckets {
 public:
  GradientBuckets(Connection& connection, const Masters& masters, std::vector<BucketPlan> plans,
                  bool ordered);
  /// Is called before a backward pass whose gradients are reduced.
  void open();
  /// Takes the gradient of a master, which has been accumulated. Throws BadModel if its bucket has
  /// begun.
  void arrive(std::size_t master);
  /// Reduces the remaining buckets, and waits for all. Returns the masters whose gradients are
  /// sparse on some rank; they are the same on all ranks.
  std::vector<std::size_t> finish();
  /// Is called when all ranks have finished.
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
  std::vector<std::optional<Home>> homes_;  // the bucket, by master; no value if it is in no bucket
  bool ordered_;
  std::size_t next_ = 0;  // the first bucket that has not begun
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/ddp/impl/gradient_buckets.ipp>
#endif
