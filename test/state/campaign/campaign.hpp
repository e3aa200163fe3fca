#pragma once
// Campaigns: each tries `count` cases (0: all there are), prints what it tried, and throws at the
// first that does not hold.
#include <cstdint>
#include <stdexcept>
#include <string>

namespace campaign {

/// Throws with `what` unless `holds`.
inline void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

}  // namespace campaign
