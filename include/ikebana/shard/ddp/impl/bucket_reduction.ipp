#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/ddp/bucket_reduction.hpp>

namespace ikebana::detail {

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

}  // namespace ikebana::detail
