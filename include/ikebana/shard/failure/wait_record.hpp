#pragma once
// What a rank that waits long tells the others: where it waits, and how far each of its trainers
// is.
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace ikebana::detail {

/// A place among the calls of one trainer, which its ranks make in one order: how often they had
/// failed when they met, and how many exchanges they have begun since. Less than all others where
/// the trainer was not made.
struct CallPlace {
  std::int64_t meeting = -1, exchange = 0;
  auto operator<=>(const CallPlace&) const = default;
};

/// One wait of a rank.
struct WaitRecord {
  std::int64_t wait = 0;              ///< which of this rank's, from 1
  std::size_t trainer = 0;            ///< in which it waits, in the order in which they were made
  std::string where = {};             ///< the call and the trainer, for errors
  std::vector<CallPlace> begun = {};  ///< the last call of each trainer; that of `trainer` waits
  /// For each rank the wait that was read there while this one lasted; 0 for none.
  std::vector<std::int64_t> seen = {};
  bool is_refused = false;  ///< it will end with an error

  CallPlace of(std::size_t which) const;
  /// True where `other`, if it waits meanwhile, does not come to the call in which this one waits.
  bool waits_for(const WaitRecord& other) const;
  std::string text() const;
  /// Back from `text`.
  static WaitRecord read(const std::string& text);
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/failure/impl/wait_record.ipp>
#endif
