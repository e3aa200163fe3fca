#pragma once
// Campaigns: each tries `count` cases (0: all), prints how many it tried, and throws at the first
// that fails.
#include <cstdint>
#include <stdexcept>
#include <string>

namespace campaign {

/// Throws with `what` unless `holds`.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

void async(std::int64_t count);
void calls(std::int64_t count);
void crash(std::int64_t count);
void folders(std::int64_t count);
void truncations(std::int64_t count);
void flips(std::int64_t count);
void edits(std::int64_t count);
void kill(std::int64_t count);

}  // namespace campaign
