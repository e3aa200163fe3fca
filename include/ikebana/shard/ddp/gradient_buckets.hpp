#pragma once
// Buckets of gradients: which gradients are reduced together, and their sums over ranks, which
// begin while backward runs.
#include <deque>
#include <ikebana/hooks/arguments.hpp>
#include <ikebana/shard/group/connection.hpp>
#include <optional>

namespace ikebana::detail {

/// Elements of a bucket.
struct BucketRange {
  std::int64_t begin = 0, count = 0;
};

/// The gradients of one bucket, which are of one dtype, one after the other at multiples of 16
/// elements, each in the memory order of its parameter.
struct BucketPlan {
  struct Slot {
    std::size_t master;
    BucketRange range;
  };
  at::ScalarType dtype, reduce_dtype;  // of the gradients, and in which they are summed
  std::vector<Slot> places = {};
  std::int64_t elements = 0;

  static std::int64_t aligned(std::int64_t elements) { return (elements + 15) / 16 * 16; }
  double bytes() const;
  void add(std::size_t master, std::int64_t count);
  /// The elements that one of several ranks adds up.
  BucketRange part(std::int64_t rank, std::int64_t ranks) const;
  /// The gradient in that slot: shares the memory of `flat`.
  at::Tensor view(const at::Tensor& flat, std::size_t slot, const at::Tensor& master) const;
};

/// How many bytes a bucket has at most, unless one gradient has more: the first bucket of a dtype,
/// which backward fills first, and the others.
struct BucketLimits {
  double first, others;
};

/// Buckets of the masters in `order`, each filled before the next one. They are listed in the order
/// in which a backward pass that makes the gradients in this order completes them.
std::vector<BucketPlan> plan_buckets(const Tensors& masters, const std::vector<std::size_t>& order,
                                     const BucketLimits& limits,
                                     std::optional<at::ScalarType> reduce_dtype);

/// What a rank has of a parameter's gradient. A sparse one stays outside of its bucket.
enum class GradientKind : std::uint8_t { Absent, Dense, Sparse };
using GradientKinds = std::vector<GradientKind>;

/// A bucket on its way, in place: N ranks each send and receive 2 (N - 1) / N of its bytes. In the
/// order of ranks, each rank adds up one part of the bucket, for which it has memory for that part
/// of all other ranks until `spread`; a rank that has no gradient adds nothing. Or by the backend's
/// all-reduce, in an order of its own, to which it adds zeros.
class BucketReduction {
 public:
  /// Begins. What `flat` has in places without a dense gradient is not used, and must be finite.
  BucketReduction(Connection& connection, std::size_t index, const BucketPlan& plan,
                  at::Tensor flat, const GradientKinds& kinds, bool ordered);
  /// Waits for this rank's part of all ranks, adds up, and begins to send the sums. They replace
  /// what is sent to add it up, since a rank sends its sums when it has received that.
  void spread(Connection& connection);
  /// Waits for the sums of the whole bucket, which `spread` must precede.
  const at::Tensor& finish(Connection& connection);
  /// All ranks have finished: the bucket's memory is no longer read.
  void end(Connection& connection);
  /// Whether any rank has such a gradient in that slot. Known after `spread` or `finish`.
  bool any_has(GradientKind kind, std::size_t slot) const;
  /// The first such rank; the number of ranks: none.
  std::int64_t first_with(GradientKind kind, std::size_t slot) const;

 private:
  static std::size_t index_of(std::int64_t rank) { return static_cast<std::size_t>(rank); }
  TensorsOfRanks of_ranks() const { return TensorsOfRanks(index_of(ranks_)); }
  at::Tensor part(std::int64_t rank) const;
  GradientKind kind_of(std::int64_t rank, std::size_t slot) const;
  bool has(std::int64_t rank, std::size_t slot) const;

  void begin_kinds(Connection& connection, const GradientKinds& kinds);
  void begin_parts(Connection& connection);
  /// Slots that follow each other, and of which the same ranks have a gradient, are added up in one
  /// pass.
  void add_up();
  bool same_ranks(std::size_t a, std::size_t b) const;
  /// In the order of ranks. Since a + b is b + a to the bit, the sum of the ranks before this one
  /// is added to what this one has.
  void add_up(std::size_t slot, std::int64_t begin, std::int64_t count, std::int64_t in_part);

  const BucketPlan& plan_;
  std::size_t index_;
  at::Tensor flat_;
  std::int64_t rank_, ranks_;
  bool ordered_;
  std::vector<at::Tensor> kinds_;     // of each rank: one byte for each slot
  std::vector<at::Tensor> received_;  // of each rank: this rank's part
  Transfer kinds_sent_, parts_, sums_;
};

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
