#pragma once
// How a rank asks by the store whether the others do the same.
#include <ikebana/shard/process_group.hpp>

namespace ikebana::detail {

/// What a rank posts, and which ranks are to post the same.
struct RankPost {
  std::string key, text;
  std::vector<std::int64_t> ranks;
  std::chrono::milliseconds limit;
  std::string former_key;  ///< of the post before, which all have read when this one is answered
};

/// Posts, and waits for the posts of the other ranks. Returns nothing where all are the same, else
/// which rank differs; behind a '!' what a rank has reported that failed.
std::string compare_posts(GroupMembers& members, const std::string& prefix, const RankPost& post);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/compare_posts.ipp>
#endif
