#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/ranks/step_calls.hpp>

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

IKEBANA_INLINE void sum_over(const Ranks& ranks, StepSums& sums) {
  if (&ranks.slices() != &ranks.data()) {
    ranks.data().sum(sums.data);
    if (ranks.slices().size() > 1 && !sums.slices.empty()) ranks.slices().sum(sums.slices);
    return;
  }
  const auto slices = std::ssize(sums.slices);
  std::vector<at::Tensor> all = std::move(sums.slices);
  all.insert(all.end(), sums.data.begin(), sums.data.end());
  ranks.data().sum(all);
  sums.slices.assign(all.begin(), all.begin() + slices);
  sums.data.assign(all.begin() + slices, all.end());
}

IKEBANA_INLINE std::string ranks_where_not(RankGroup& group, bool finite_here) {
  std::string ranks;
  const auto all = exchange_in(group, "a loss that is not finite", finite_here ? "" : "!");
  for (std::size_t rank = 0; rank < all.size(); ++rank)
    if (!all[rank].empty())
      ranks += (ranks.empty() ? " on rank " : ", rank ") + std::to_string(rank);
  return ranks;
}

IKEBANA_INLINE StopWish max_of(RankGroup& group, StopWish own) {
  const std::string text = std::to_string(static_cast<std::int64_t>(own));
  for (const std::string& wish : exchange_in(group, "an agreement to stop", text))
    own = std::max(own, static_cast<StopWish>(std::stoll(wish)));
  return own;
}

IKEBANA_INLINE void throw_other_parameters(std::size_t rank) {
  throw RanksDiffer("step: rank " + std::to_string(rank) +
                    " updates other parameters than rank 0, which has gradients of others. A "
                    "policy that takes gradients out must do so on every rank.");
}

IKEBANA_INLINE void agree(RankGroup& group, const UpdateNumbers& own) {
  const auto all =
      exchange_in(group, "the end of a step", {reinterpret_cast<const char*>(&own), sizeof own});
  UpdateNumbers first, other;
  std::memcpy(&first, all[0].data(), sizeof first);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    std::memcpy(&other, all[rank].data(), sizeof other);
    if (other.rejects != first.rejects)
      throw RanksDiffer("step: rank " + std::to_string(rank) +
                        (other.rejects != 0 ? " rejects" : " makes") +
                        " the update, and rank 0 does not. A policy that decides by numbers of its "
                        "rank must add them up first: ranks.data().sum(...).");
    if (other.order != first.order)
      throw RanksDiffer(
          "step: rank " + std::to_string(rank) +
          " ran the units of the model in another order than rank 0. Their parameters "
          "are cut, so that they compute together: run the same units in the same order "
          "on every rank.");
    if (other.indices != first.indices) throw_other_parameters(rank);
  }
}

}  // namespace ikebana::detail
