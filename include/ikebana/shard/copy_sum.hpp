#pragma once
// Slices of a unit's gradients, summed over the copies of a model, of which each has the sums.
#include <ikebana/shard/unit_gather.hpp>
#include <ikebana/shard/unit_reduction.hpp>

namespace ikebana::detail {

/// In the order of ranks: round the copies goes first a partial sum, to which each adds its own
/// gradients, and then the sum. Each copy sends no more than two slices. Messages follow each
/// other, so a copy hands on what it has while backward computes.
class OrderedCopySum {
 public:
  /// Slices of `cut` that belong to `rank`. Among hosts memory for what is received is there, and
  /// awaits it, from the beginning on; devices receive in the order of calls.
  OrderedCopySum(Subgroup& copies, int tag, const UnitCut& cut, std::int64_t rank,
                 const DTypes& dtypes, c10::Device device)
      : tag_(tag), cut_(cut), rank_(rank), dtypes_(dtypes), device_(device) {
    if (copies.rank() > 0) partial_.emplace(message());
    if (!is_last(copies)) sum_.emplace(message());
    if (!device_.is_cpu()) return;
    if (partial_) arriving_partial_ = pass(copies, *partial_, /*sends=*/false);
    if (sum_) arriving_sum_ = pass(copies, *sum_, /*sends=*/false);
  }
  /// What copies before this one have; in the first one nothing. Waits.
  Tensors before(Subgroup& copies) {
    if (!partial_) return {};
    if (!device_.is_cpu()) arriving_partial_ = pass(copies, *partial_, /*sends=*/false);
    arriving_partial_.receive(copies);
    return slices(*partial_);
  }
  /// Hands on the sum of this copy and those before. In the last one that is the sum of all.
  void begin(Subgroup& copies, Tensors sums) {
    partial_.reset();
    sent_ = pass(copies, SliceMessage(cut_, rank_, dtypes_, device_, sums), /*sends=*/true);
    if (is_last(copies)) result_ = std::move(sums);
  }
  void advance(Subgroup&) {}
  /// Waits for the sum, and hands it on.
  Tensors finish(Subgroup& copies) {
    if (is_last(copies)) return std::move(result_);
    if (!device_.is_cpu()) arriving_sum_ = pass(copies, *sum_, /*sends=*/false);
    arriving_sum_.receive(copies);
    sent_.wait(copies);  // the others have had the partial sum
    if (copies.rank() + 2 < copies.size()) sent_ = pass(copies, *sum_, /*sends=*/true);
    return slices(*sum_);
  }
  /// What is still being sent, of which the sums are a part.
  SliceTransfer take_sent() { return std::move(sent_); }

 private:
  static bool is_last(const Subgroup& copies) { return copies.rank() + 1 == copies.size(); }
  SliceMessage message() const { return {cut_, rank_, dtypes_, device_}; }
  /// Begins to send to the next copy, or to receive from the one before.
  SliceTransfer pass(Subgroup& copies, const SliceMessage& message, bool sends) const {
    const std::int64_t n = copies.size();
    const auto other = static_cast<std::size_t>((copies.rank() + (sends ? 1 : n - 1)) % n);
    TensorsOfRanks tensors(static_cast<std::size_t>(n)), flags = tensors, none = tensors;
    message.add_to(tensors[other], flags[other]);
    if (sends) return {copies, tag_, device_, std::move(tensors), none, std::move(flags), none};
    return {copies, tag_, device_, none, std::move(tensors), none, std::move(flags)};
  }
  Tensors slices(const SliceMessage& message) const {
    Tensors all(cut_.count());
    for (std::size_t i = 0; i < all.size(); ++i)
      if (message.has(i)) all[i] = message.slice(i);
    return all;
  }

  int tag_;
  const UnitCut& cut_;
  std::int64_t rank_;
  const DTypes& dtypes_;
  c10::Device device_;
  std::optional<SliceMessage> partial_, sum_;
  Tensors result_;
  SliceTransfer arriving_partial_, arriving_sum_, sent_;
};

/// Each copy's sum, and then those of the copies. A copy adds up its rows of the slices, and all
/// gather them, so that each of C copies sends 2 (C - 1) / C slices.
class UnorderedCopySum {
 public:
  /// `cut`: of the slices, among copies.
  UnorderedCopySum(std::size_t unit, const UnitCut& cut, const DTypes& dtypes, c10::Device device)
      : unit_(unit), cut_(cut), dtypes_(dtypes), device_(device) {}
  Tensors before(Subgroup&) { return {}; }
  void begin(Subgroup& copies, Tensors sums) {
    reduction_.emplace(copies, MessageTag::reduce(unit_), cut_, std::move(sums), dtypes_, device_);
  }
  /// Where no copy has a gradient, zeros are gathered.
  void advance(Subgroup& copies) {
    if (!reduction_) return;
    Tensors rows = reduction_->finish(copies);
    reduction_.reset();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      is_there_.push_back(rows[i].defined());
      if (!is_there_[i])
        rows[i] =
            cut_.new_slice(i, copies.rank(), at::TensorOptions(device_).dtype(dtypes_[i])).zero_();
    }
    gather_.emplace(copies, MessageTag::spread(unit_), cut_, rows);
  }
  Tensors finish(Subgroup& copies) {
    advance(copies);
    Tensors sums = gather_->finish(copies);
    for (std::size_t i = 0; i < sums.size(); ++i)
      if (!is_there_[i]) sums[i].reset();
    return sums;
  }
  SliceTransfer take_sent() { return {}; }

 private:
  std::size_t unit_;
  const UnitCut& cut_;
  const DTypes& dtypes_;
  c10::Device device_;
  std::optional<UnitReduction> reduction_;
  std::optional<UnitGather> gather_;
  std::vector<bool> is_there_;
};

}  // namespace ikebana::detail
