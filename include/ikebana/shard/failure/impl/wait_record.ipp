#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/shard/failure/wait_record.hpp>
#include <sstream>

namespace ikebana::detail {

IKEBANA_INLINE CallPlace WaitRecord::of(std::size_t which) const {
  return which < begun.size() ? begun[which] : CallPlace();
}

IKEBANA_INLINE bool WaitRecord::waits_for(const WaitRecord& other) const {
  return trainer != other.trainer && other.of(trainer) < of(trainer);
}

IKEBANA_INLINE std::string WaitRecord::text() const {
  std::ostringstream out;
  out << wait << ' ' << trainer << ' ' << begun.size() << ' ' << seen.size() << ' ' << is_refused;
  for (const CallPlace& place : begun) out << ' ' << place.meeting << ' ' << place.exchange;
  for (const std::int64_t other : seen) out << ' ' << other;
  out << '\n' << where;
  return out.str();
}

IKEBANA_INLINE WaitRecord WaitRecord::read(const std::string& text) {
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

}  // namespace ikebana::detail
