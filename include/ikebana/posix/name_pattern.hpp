#pragma once
// Shell patterns for names.
#include <fnmatch.h>

#include <string>

namespace ikebana::detail {

/// True if `name` matches a shell pattern with `*`, `?` and `[...]`. `*` also matches dots.
inline bool matches_pattern(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace ikebana::detail
