#pragma once
// What a rank that waits long tells the others: where it waits, and how far each of its trainers
// is.
#include <algorithm>
#include <compare>
#include <cstdint>
#include <sstream>
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

  CallPlace of(std::size_t which) const {
    return which < begun.size() ? begun[which] : CallPlace();
  }
  /// True where `other`, if it waits meanwhile, does not come to the call in which this one waits.
  bool waits_for(const WaitRecord& other) const {
    return trainer != other.trainer && other.of(trainer) < of(trainer);
  }
  std::string text() const {
    std::ostringstream out;
    out << wait << ' ' << trainer << ' ' << begun.size() << ' ' << seen.size() << ' ' << is_refused;
    for (const CallPlace& place : begun) out << ' ' << place.meeting << ' ' << place.exchange;
    for (const std::int64_t other : seen) out << ' ' << other;
    out << '\n' << where;
    return out.str();
  }
  /// Back from `text`.
  static WaitRecord read(const std::string& text) {
    WaitRecord record;
    std::istringstream in(text);
    std::size_t trainers = 0, ranks = 0;
    in >> record.wait >> record.trainer >> trainers >> ranks >> record.is_refused;
    record.begun.resize(trainers), record.seen.resize(ranks);
    for (CallPlace& place : record.begun) in >> place.meeting >> place.exchange;
    for (std::int64_t& other : record.seen) in >> other;
    record.where = text.substr(std::min(text.find('\n'), text.size() - 1) + 1);
    return record;
  }
};

}  // namespace ikebana::detail
