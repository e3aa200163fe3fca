#pragma once
// What the first rank that failed left in the store for the others.
#include <ikebana/detail/torch_c10d.hpp>
#include <string>

namespace ikebana::detail {

/// Why the ranks have to meet again: the text of the first that failed, and whether it ran out of
/// memory in what it makes again. Nothing else decides that, so all ranks that can read it know the
/// same.
struct RankReport {
  std::string text = {};
  bool out_of_memory = false;

  /// Leaves this report, unless there is one. Returns the one that is there.
  RankReport leave(c10d::Store& store, const std::string& prefix) const;
  static bool is_in(c10d::Store& store, const std::string& prefix);
  static RankReport of(c10d::Store& store, const std::string& prefix);
  std::string written() const { return (out_of_memory ? 'm' : '-') + text; }
  static RankReport read(const std::string& written);
  static bool says_out_of_memory(const std::string& written) noexcept { return written[0] == 'm'; }
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/rank_report.ipp>
#endif
