#pragma once
// One bucket of gradients, summed over ranks.
#include <ikebana/shard/bucket_plan.hpp>
#include <ikebana/shard/connection.hpp>

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
                  at::Tensor flat, const GradientKinds& kinds, bool ordered)
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
  /// Waits for this rank's part of all ranks, adds up, and begins to send the sums. They replace
  /// what is sent to add it up, since a rank sends its sums when it has received that.
  void spread(Connection& connection) {
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
  /// Waits for the sums of the whole bucket, which `spread` must precede.
  const at::Tensor& finish(Connection& connection) {
    connection.wait_received(kinds_sent_);
    connection.wait_received(sums_);
    return flat_;
  }
  /// All ranks have finished: the bucket's memory is no longer read.
  void end(Connection& connection) {
    for (Transfer* transfer : {&kinds_sent_, &parts_, &sums_}) connection.wait(*transfer);
  }
  /// Whether any rank has such a gradient in that slot. Known after `spread` or `finish`.
  bool any_has(GradientKind kind, std::size_t slot) const {
    return first_with(kind, slot) < ranks_;
  }
  /// The first such rank; the number of ranks: none.
  std::int64_t first_with(GradientKind kind, std::size_t slot) const {
    std::int64_t rank = 0;
    while (rank < ranks_ && kind_of(rank, slot) != kind) ++rank;
    return rank;
  }

 private:
  static std::size_t index_of(std::int64_t rank) { return static_cast<std::size_t>(rank); }
  TensorsOfRanks of_ranks() const { return TensorsOfRanks(index_of(ranks_)); }
  at::Tensor part(std::int64_t rank) const {
    const BucketRange range = plan_.part(rank, ranks_);
    return flat_.narrow(0, range.begin, range.count);
  }
  GradientKind kind_of(std::int64_t rank, std::size_t slot) const {
    return static_cast<const GradientKind*>(kinds_[index_of(rank)].const_data_ptr())[slot];
  }
  bool has(std::int64_t rank, std::size_t slot) const {
    return kind_of(rank, slot) == GradientKind::Dense;
  }

  void begin_kinds(Connection& connection, const GradientKinds& kinds) {
    TensorsOfRanks to = of_ranks(), from = of_ranks();
    for (std::int64_t r = 0; r < ranks_; ++r)
      kinds_.push_back(at::empty({std::ssize(kinds)}, at::kByte));
    at::Tensor& own = kinds_[index_of(rank_)];
    std::memcpy(own.mutable_data_ptr(), kinds.data(), kinds.size());
    for (std::size_t r = 0; r < kinds_.size(); ++r)
      if (r != index_of(rank_)) to[r] = {own}, from[r] = {kinds_[r]};
    kinds_sent_ = connection.swap(MessageTag::reduce(index_) + 1, to, from, at::kCPU);
  }
  void begin_parts(Connection& connection) {
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
  /// Slots that follow each other, and of which the same ranks have a gradient, are added up in one
  /// pass.
  void add_up() {
    const auto& places = plan_.places;
    const BucketRange own = plan_.part(rank_, ranks_);
    for (std::size_t first = 0, end; first < places.size(); first = end) {
      end = first + 1;
      while (end < places.size() && same_ranks(first, end)) ++end;
      const std::int64_t begin = std::max(places[first].range.begin, own.begin);
      const std::int64_t places_end =
          end < places.size() ? places[end].range.begin : plan_.elements;
      const std::int64_t count = std::min(places_end, own.begin + own.count) - begin;
      if (count > 0) add_up(first, begin, count, begin - own.begin);
    }
  }
  bool same_ranks(std::size_t a, std::size_t b) const {
    for (std::int64_t r = 0; r < ranks_; ++r)
      if (has(r, a) != has(r, b)) return false;
    return true;
  }
  /// In the order of ranks. Since a + b is b + a to the bit, the sum of the ranks before this one
  /// is added to what this one has.
  void add_up(std::size_t slot, std::int64_t begin, std::int64_t count, std::int64_t in_part) {
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
