#pragma once
// The gradients of a unit, summed over all ranks.
#include <algorithm>
#include <deque>
#include <ikebana/shard/copy_sum.hpp>
#include <variant>

namespace ikebana::detail {

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
  Tensors slices(const Tensors& whole, std::int64_t rank) const {
    Tensors all;
    for (std::size_t i = 0; i < whole.size(); ++i) all.push_back(cut.slice(whole[i], i, rank));
    return all;
  }
};

/// A unit's gradients on their way: they are summed within `slices`, and over `copies` what each
/// has. `layout` outlives it.
class UnitSum {
 public:
  UnitSum(ShardGroups& groups, std::size_t unit, const UnitLayout& layout, Tensors gradients,
          c10::Device device, bool ordered)
      : of_slices_(groups.slices, MessageTag::reduce(unit), layout.cut, std::move(gradients),
                   layout.dtypes, device) {
    if (!groups.has_copies()) return;
    if (ordered)
      of_copies_.emplace<OrderedCopySum>(groups.copies, MessageTag::reduce(unit), layout.cut,
                                         groups.slices.rank(), layout.dtypes, device);
    else of_copies_.emplace<UnorderedCopySum>(unit, layout.among_copies, layout.dtypes, device);
  }
  /// The next unit's sum has begun. Where there are copies, waits for what was to come meanwhile,
  /// and sends what follows from it. Throws RankFailed.
  void advance(ShardGroups& groups) {
    on_copies([&](auto& of_copies) {
      if (is_begun_) return of_copies.advance(groups.copies);
      begin(groups, of_copies);
    });
  }
  /// Waits for the sums, undefined where no rank has a gradient. Throws RankFailed.
  Tensors finish(ShardGroups& groups) {
    if (!groups.has_copies()) return of_slices_.finish(groups.slices);
    Tensors sums;
    on_copies([&](auto& of_copies) {
      if (!is_begun_) begin(groups, of_copies);
      sums = of_copies.finish(groups.copies);
    });
    return sums;
  }
  /// What is still being sent, of which the sums are a part: they are not to be written before.
  SliceTransfer take_sent() {
    SliceTransfer sent;
    on_copies([&](auto& of_copies) { sent = of_copies.take_sent(); });
    return sent;
  }

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
  bool may_begin(std::size_t unit, const ShardGroups& groups) const {
    return pending_.size() < (groups.has_copies() ? 3 : 2) &&
           std::none_of(
               pending_.begin(), pending_.end(),
               [unit](const Pending& one) { return one.unit == unit; });
  }
  void begin(ShardGroups& groups, std::size_t unit, UnitSum sum) {
    pending_.push_back({unit, std::move(sum)});
    for (std::size_t i = 0; i + 1 < pending_.size(); ++i) pending_[i].sum.advance(groups);
  }
  Ended end_oldest(ShardGroups& groups) {
    Pending oldest = std::move(pending_.front());
    pending_.pop_front();
    Tensors sums = oldest.sum.finish(groups);
    return {oldest.unit, std::move(sums), oldest.sum.take_sent()};
  }
  void clear() noexcept { pending_.clear(); }

 private:
  struct Pending {
    std::size_t unit;
    UnitSum sum;
  };
  std::deque<Pending> pending_;
};

}  // namespace ikebana::detail
