#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/over_ranks.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void RankTurns::begin() {
  if (needs_dummies()) turn(batch_);
}

IKEBANA_INLINE void RankTurns::end(LossSums& sums, c10::Device device,
                                   c10::function_ref<void(WithCount)> around, WithCount dummies) {
  const std::string own = end_ + sums.terms();
  bool all_ended = !needs_dummies();
  while (!all_ended)
    around([&](std::size_t count) {
      all_ended = turn(own);
      if (!all_ended) dummies(count);
    });
  if (&ranks_.slices() != &ranks_.data())
    around(
        [&](std::size_t) { all_ = exchange_in(ranks_.data(), "the end of an evaluation", own); });
  for (const std::string& one : all_)
    if (one != end_) return sums.take_terms(one.substr(end_.size()), device);
}

IKEBANA_INLINE bool RankTurns::turn(const std::string& own) {
  all_ = exchange_in(ranks_.slices(), "an evaluation", own);
  const bool all_ended =
      std::none_of(all_.begin(), all_.end(), [](const auto& one) { return one == batch_; });
  if (all_ended) return true;
  for (const std::string& one : all_)
    if (one == end_)
      throw BadBatch("evaluate: rank " +
                     std::to_string(ranks_.slices().rank_in_world(&one - all_.data())) +
                     " has no batch, and other ranks have one. Their parameters are cut, so that "
                     "they compute together: give every rank at least one batch, if only one "
                     "without rows.");
  return false;
}

}  // namespace ikebana::detail
