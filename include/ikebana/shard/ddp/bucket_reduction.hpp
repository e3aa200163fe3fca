#pragma once
// One bucket of gradients, summed over ranks.
#include <ikebana/shard/ddp/bucket_plan.hpp>
#include <ikebana/shard/group/connection.hpp>

namespace ikebana::detail {

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

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/ddp/impl/bucket_reduction.ipp>
#endif
