#pragma once
// The microbatches of a step: its batch is placed on the device, and cut.
#include <ikebana/core/core.hpp>
#include <ikebana/core/placement.hpp>

namespace ikebana::detail {

/// Places the batch of a step. Its destructor waits until the caller may write to the batch again.
template <class Core>
class BatchPlacement {
 public:
  explicit BatchPlacement(Core& core) : core_(core), placement_(core.device) {}

  /// Returns the batch, or each batch of a range, on the device, in the recipe's layout.
  template <class Batch>
  auto place(const Batch& batch) {
    auto& m = core_.mechanisms;
    if constexpr (Batches<const Batch>) {
      Microbatches<std::ranges::range_value_t<const Batch>> placed;
      for (const auto& one : batch)
        placed.push_back((check_rows(one), placement_.place(m.device, m.layout, one)));
      if (placed.empty() && (Core::one_rank || !core_.loop_end.has_ended))
        throw BadBatch("step: the range holds no batch. Give it at least one.");
      return placed;
    } else {
      return placement_.place(m.device, m.layout, batch);
    }
  }

 private:
  /// Throws BadBatch for a batch without rows, unless other ranks can have some.
  template <class Batch>
  void check_rows(const Batch& batch) const {
    if (!may_have_no_rows(core_) || !has_no_rows(batch)) rows(batch);
  }

  Core& core_;
  Placement placement_;
};

/// The microbatches of a rank: its own, and after them dummies.
template <class Batch>
struct RankMicrobatches : std::vector<Batch> {
  std::size_t own = 0;

  bool has_own() const { return own > 0; }
  /// Appends dummies of the last one's shape, up to `n` microbatches.
  void fill(std::size_t n) {
    if (this->size() < n)
      this->resize(n, own < this->size() ? this->back() : zero_row(this->back()));
  }
};

/// Adds a batch of a range, which is one microbatch, unless the recipe fits memory.
template <class Core, class Batch, class All>
void append_microbatches(Core& core, const Batch& one, All& all) {
  if constexpr (!Core::fits_memory) all.push_back(one);
  else
    for (auto& part : core.mechanisms.accumulate.split(one)) all.push_back(std::move(part));
}
/// Returns the microbatches of a batch, or of a range of batches. A microbatch without rows becomes
/// a dummy.
template <class Core, class Batch>
auto rank_microbatches(Core& core, const Batch& placed) {
  const bool may_be_empty = may_have_no_rows(core);
  if constexpr (Batches<const Batch>) {
    RankMicrobatches<std::ranges::range_value_t<const Batch>> all;
    for (const auto& one : placed) {
      if (may_be_empty && has_no_rows(one)) continue;
      append_microbatches(core, one, all);
    }
    all.own = all.size();
    if (!all.has_own() && !std::ranges::empty(placed))
      all.push_back(zero_row(*std::ranges::begin(placed)));
    return all;
  } else {
    auto& accumulate = core.mechanisms.accumulate;
    RankMicrobatches<std::ranges::range_value_t<decltype(accumulate.split(placed))>> all;
    if (may_be_empty && has_no_rows(placed)) return all.push_back(zero_row(placed)), all;
    for (const auto& one : accumulate.split(placed)) all.push_back(one);
    all.own = all.size();
    if (!all.has_own()) refuse_no_microbatch();
    return all;
  }
}

/// Returns the microbatches. The batches of a range are the microbatches, unless the recipe fits
/// memory.
template <class Core, class Batch>
decltype(auto) cut(Core& core, const Batch& placed) {
  if constexpr (!Core::one_rank) {
    return rank_microbatches(core, placed);
  } else if constexpr (Batches<const Batch> && Core::fits_memory) {
    Microbatches<std::ranges::range_value_t<const Batch>> all;
    for (const auto& one : placed) append_microbatches(core, one, all);
    return all;
  } else if constexpr (Batches<const Batch>) {
    return (placed);
  } else {
    return core.mechanisms.accumulate.split(placed);
  }
}

}  // namespace ikebana::detail
