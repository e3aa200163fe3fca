#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/estimate.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check(const EstimateOptions& options) {
  const std::int64_t ranks = std::max<std::int64_t>(options.ranks, 1);
  if (options.ranks < 0 || options.rank < 0 || options.rank >= ranks)
    throw BadValue("estimate: rank " + std::to_string(options.rank) + " of " +
                   std::to_string(options.ranks) +
                   " is impossible; ranks count from 0 and must be less than their number.");
}

IKEBANA_INLINE void refuse_ranks(const EstimateOptions& options) {
  if (options.ranks > 1)
    throw BadValue("estimate: ranks is " + std::to_string(options.ranks) +
                   ", and the recipe has no policy for several ranks. Write one, such as "
                   "Shard<FSDP>, or leave `ranks` out.");
}

IKEBANA_INLINE void refuse_pretended_ranks() {
  throw BadValue(
      "estimate: `ranks` are pretended, and a batch of real tensors needs real ones to exchange "
      "values with. Give it shapes(batch); or start the ranks, leave `ranks` out, and call it on "
      "all of them.");
}

IKEBANA_INLINE void throw_of_shapes(std::string text, bool has_ranks) {
  const std::string cure = "Give it a batch of real tensors, which measures instead.";
  if (const std::size_t at = text.find(cure); has_ranks && at != text.npos)
    text.replace(
        at, cure.size(),
        "Start the ranks, leave `ranks` out, and give it a batch of real tensors on all of "
        "them, which measures instead.");
  throw Error(text.starts_with("estimate: ") ? text : "estimate: " + text);
}

}  // namespace ikebana::detail
