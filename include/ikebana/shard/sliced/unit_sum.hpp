#pragma once
// The sum of a unit's gradients over all ranks: within each copy of the model, then over the
// copies.
#include <deque>
#include <ikebana/shard/sliced/unit_gather.hpp>
#include <ikebana/shard/sliced/unit_reduction.hpp>
#include <variant>

namespace ikebana::detail {

/// In the order of ranks: round the copies goes first a partial sum, to which each adds its own
/// gradients, and then the sum. Each copy sends no more than two slices. Messages follow each
/// other, so a copy hands on what it has while backward computes.
class OrderedCopySum {
 public:
  /// Slices of `cut` that belong to `rank`. Among hosts memory for what is received is there, and
  /// awaits it, from the beginning on; devices receive in the order of calls.
  OrderedCopySum(Subgroup& copies, int tag, const UnitCut& cut, std::int64_t rank,
                 const DTypes& dtypes, c10::Device device);
  /// What copies before this one have; in the first one nothing. Waits.
  Tensors before(Subgroup& copies);
  /// Hands on the sum of this copy and those before. In the last one that is the sum of all.
  void begin(Subgroup& copies, Tensors sums);
  void advance(Subgroup&) {}
  /// Waits for the sum, and hands it on.
  Tensors finish(Subgroup& copies);
  /// What is still being sent, of which the sums are a part.
  SliceTransfer take_sent() { return std::move(sent_); }

 private:
  static bool is_last(const Subgroup& copies) { return copies.rank() + 1 == copies.size(); }
  SliceMessage message() const { return {cut_, rank_, dtypes_, device_}; }
  /// Begins to send to the next copy, or to receive from the one before.
  SliceTransfer pass(Subgroup& copies, const SliceMessage& message, bool sends) const;
  Tensors slices(const SliceMessage& message) const;

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
  void begin(Subgroup& copies, Tensors sums);
  /// Where no copy has a gradient, zeros are gathered.
  void advance(Subgroup& copies);
  Tensors finish(Subgroup& copies);
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

/// The ranks of a recipe whose parameters are cut: each `slices` has one copy of the model, of
/// which each member has a slice; `copies` are the ranks that have the same slice.
struct ShardGroups {
  Subgroup slices, copies;

  /// `size` consecutive ranks have a copy.
  ShardGroups(Connection& all, std::int64_t size)
      : slices(all, {all.rank() - all.rank() % size, size, 1}),
        copies(all, {all.rank() % size, all.size() / size, size}) {}
  bool has_copies() const { return copies.size() > 1; }
};

/// How a unit is cut, and in which dtypes its gradients are summed.
struct UnitLayout {
  UnitCut cut;           // of its parameters, among `slices`
  UnitCut among_copies;  // of this rank's slices
  DTypes dtypes;

  UnitLayout(const Tensors& whole, const ShardGroups& groups, DTypes sums)
      : cut(whole, groups.slices.size()),
        among_copies(slices(whole, groups.slices.rank()), groups.copies.size()),
        dtypes(std::move(sums)) {}

 private:
  Tensors slices(const Tensors& whole, std::int64_t rank) const;
};

/// A unit's gradients on their way: they are summed within `slices`, and over `copies` what each
/// has. `layout` outlives it.
class UnitSum {
 public:
  UnitSum(ShardGroups& groups, std::size_t unit, const UnitLayout& layout, Tensors gradients,
          c10::Device device, bool ordered);
  /// The next unit's sum has begun. Where there are copies, waits for what was to come meanwhile,
  /// and sends what follows from it. Throws RankFailed.
  void advance(ShardGroups& groups);
  /// Waits for the sums, undefined where no rank has a gradient. Throws RankFailed.
  Tensors finish(ShardGroups& groups);
  /// What is still being sent, of which the sums are a part: they are not to be written before.
  SliceTransfer take_sent();

 private:
  template <class F>
  void on_copies(F&& f) {
    if (auto* ordered = std::get_if<OrderedCopySum>(&of_copies_)) f(*ordered);
    if (auto* unordered = std::get_if<UnorderedCopySum>(&of_copies_)) f(*unordered);
  }
  template <class CopySum>
  void begin(ShardGroups& groups, CopySum& of_copies) {
    is_begun_ = true;
    const Tensors before = of_copies.before(groups.copies);
    of_copies.begin(groups.copies, of_slices_.finish(groups.slices, before));
  }

  UnitReduction of_slices_;
  std::variant<std::monostate, OrderedCopySum, UnorderedCopySum> of_copies_;
  bool is_begun_ = false;
};

/// The sums of several units on their way, which end in the order in which they began.
class UnitSums {
 public:
  struct Ended {
    std::size_t unit;
    Tensors sums;
    SliceTransfer sent;  // of which the sums are a part: they are not to be written before
  };

  bool are_empty() const { return pending_.empty(); }
  /// Whether there is memory for one more, and none of this unit. Each has memory for what it
  /// receives; two at the most have whole gradients, and a third one what copies send each other.
  bool may_begin(std::size_t unit, const ShardGroups& groups) const;
  void begin(ShardGroups& groups, std::size_t unit, UnitSum sum);
  Ended end_oldest(ShardGroups& groups);
  void clear() noexcept { pending_.clear(); }

 private:
  struct Pending {
    std::size_t unit;
    UnitSum sum;
  };
  std::deque<Pending> pending_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/sliced/impl/unit_sum.ipp>
#endif
