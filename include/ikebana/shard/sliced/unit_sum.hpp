#pragma once
// Sums a unit's gradients over all ranks: first within each copy of the model, then over the
// copies.
#include <deque>
#include <ikebana/shard/sliced/unit_gather.hpp>
#include <ikebana/shard/sliced/unit_reduction.hpp>
#include <variant>

namespace ikebana::detail {

/// The sum over copies in the order of ranks: first a partial sum passes from copy to copy, and
/// each adds its own gradients; then the sum passes in the same way. Each copy sends no more than
/// two slices. Messages follow each other, so a copy hands on what it has while backward computes.
class OrderedCopySum {
 public:
  /// Sums the slices of `cut` that belong to `rank`. Hosts allocate the memory for what is
  /// received, and begin to receive, at once; devices receive in the order of calls.
  OrderedCopySum(Subgroup& copies, int tag, const UnitCut& cut, std::int64_t rank,
                 const DTypes& dtypes, c10::Device device);
  /// Waits for the partial sum of the earlier copies, and returns it; returns nothing in the first
  /// copy.
  Tensors before(Subgroup& copies);
  /// Sends the sum of this copy and the earlier ones on. In the last copy that is the whole sum.
  void begin(Subgroup& copies, Tensors sums);
  void advance(Subgroup&) {}
  /// Waits for the whole sum, hands it on, and returns it.
  Tensors finish(Subgroup& copies);
  /// Returns what is still being sent. The sums are a part of it.
  SliceTransfer take_sent() { return std::move(sent_); }

 private:
  static bool is_last(const Subgroup& copies) { return copies.rank() + 1 == copies.size(); }
  SliceMessage message() const { return {cut_, rank_, dtypes_, device_}; }
  /// Begins to send to the next copy, or to receive from the previous one.
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

/// The sum over copies in another order: each copy adds up its gradients first, and then the copies
/// add up their sums. A copy adds up its rows of the slices, and all gather them, so that each of C
/// copies sends 2 (C - 1) / C slices.
class UnorderedCopySum {
 public:
  /// `cut` is the cut of the slices among copies.
  UnorderedCopySum(std::size_t unit, const UnitCut& cut, const DTypes& dtypes, c10::Device device)
      : unit_(unit), cut_(cut), dtypes_(dtypes), device_(device) {}
  Tensors before(Subgroup&) { return {}; }
  void begin(Subgroup& copies, Tensors sums);
  /// Gathers the sums; zeros if no copy has a gradient.
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

/// The groups of a rank whose parameters are cut: the members of `slices` share one copy of the
/// model, and each has a slice; the members of `copies` have the same slice.
struct ShardGroups {
  Subgroup slices, copies;

  /// `size` consecutive ranks share a copy.
  ShardGroups(Connection& all, std::int64_t size)
      : slices(all, {all.rank() - all.rank() % size, size, 1}),
        copies(all, {all.rank() % size, all.size() / size, size}) {}
  bool has_copies() const { return copies.size() > 1; }
};

/// The cut of a unit, and the dtypes in which its gradients are summed.
struct UnitLayout {
  UnitCut cut;           // the cut of the unit's parameters, among `slices`
  UnitCut among_copies;  // the cut of this rank's slices
  DTypes dtypes;

  UnitLayout(const Tensors& whole, const ShardGroups& groups, DTypes sums)
      : cut(whole, groups.slices.size()),
        among_copies(slices(whole, groups.slices.rank()), groups.copies.size()),
        dtypes(std::move(sums)) {}

 private:
  Tensors slices(const Tensors& whole, std::int64_t rank) const;
};

/// The sum of one unit under way: gradients are summed within `slices`, and then these sums over
/// `copies`. `layout` outlives it.
class UnitSum {
 public:
  UnitSum(ShardGroups& groups, std::size_t unit, const UnitLayout& layout, Tensors gradients,
          c10::Device device, bool ordered);
  /// Is called when the next unit's sum has begun. If there are copies, waits for what was to
  /// arrive meanwhile, and sends what follows from it. Throws RankFailed.
  void advance(ShardGroups& groups);
  /// Waits for the sums, and returns them; a sum is undefined if no rank has a gradient. Throws
  /// RankFailed.
  Tensors finish(ShardGroups& groups);
  /// Returns what is still being sent. The sums are a part of it, so they must not be written
  /// before it ends.
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

/// The sums of several units under way, which end in the order in which they began.
class UnitSums {
 public:
  struct Ended {
    std::size_t unit;
    Tensors sums;
    SliceTransfer sent;  // the sums are a part of it: do not write them before it ends
  };

  bool are_empty() const { return pending_.empty(); }
  /// Returns true if there is memory for one more sum, and no sum of this unit is under way. Each
  /// sum has memory for what it receives. At most two have whole gradients, and a third one has
  /// what copies send each other.
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
