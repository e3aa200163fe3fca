#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/ranks/step_opening.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_equal(std::size_t rank, const OpeningNumbers& a,
                                const OpeningNumbers& b) {
  auto differ = [rank](const char* what, auto first, auto other, const char* cure) {
    return "step: rank 0 has " + std::string(what) + " " + std::to_string(first) + ", and rank " +
           std::to_string(rank) + " has " + std::to_string(other) + ". " + cure;
  };
  if (a.step != b.step)
    throw RanksDiffer(differ("made steps:", a.step, b.step,
                             "Load the same state on every rank, and call step equally often."));
  if (a.calls != b.calls)
    throw RanksDiffer(
        differ("layers in training mode that compute with all ranks, as SyncBatchNorm:", a.calls,
               b.calls, "Call train() and eval() alike on every rank."));
  if (a.has(HasBatch::Never) || b.has(HasBatch::Never)) return;
  if (a.counts != b.counts || a.on_device != b.on_device)
    throw RanksDiffer(differ("counts of its loss:", a.counts, b.counts,
                             "count(batch) must return the same kind of numbers on every rank."));
}

IKEBANA_INLINE void sum_counts(const std::vector<std::string>& all, std::span<Count> counts) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    double sum = 0;
    for (const std::string& one : all) {
      double value;
      std::memcpy(&value, one.data() + sizeof(OpeningNumbers) + i * sizeof value, sizeof value);
      sum += value;
    }
    counts[i] = sum;
  }
}

IKEBANA_INLINE void check_batches(const std::vector<OpeningNumbers>& ranks,
                                  std::int64_t microbatches) {
  const bool all_ended = std::none_of(ranks.begin(), ranks.end(),
                                      [](const auto& one) { return one.has(HasBatch::Yes); });
  if (all_ended) return;
  if (microbatches == 0)
    throw BadBatch(
        "step: the batches of all ranks have no rows. Give at least one rank a row, or leave "
        "the step out on all of them.");
  for (std::size_t rank = 0; rank < ranks.size(); ++rank)
    if (ranks[rank].has(HasBatch::Never))
      throw BadBatch(
          "step: rank " + std::to_string(rank) +
          " has no batch, and had none before whose shapes it could use, and other "
          "ranks have one. Give its loader at least one batch, if only one without rows.");
}

IKEBANA_INLINE bool have_same_generators(const std::vector<OpeningNumbers>& ranks) {
  for (std::size_t r = 1; r < ranks.size(); ++r) {
    if (ranks[r].generators != ranks[0].generators) return false;
    for (std::size_t other = 0; other < r; ++other)
      if (ranks[r].process == ranks[other].process) return false;
  }
  return ranks.size() > 1;
}

IKEBANA_INLINE StopWish max_of(RankGroup& group, StopWish own) {
  const std::string text = std::to_string(static_cast<std::int64_t>(own));
  for (const std::string& wish : exchange_in(group, "an agreement to stop", text))
    own = std::max(own, static_cast<StopWish>(std::stoll(wish)));
  return own;
}

}  // namespace ikebana::detail
