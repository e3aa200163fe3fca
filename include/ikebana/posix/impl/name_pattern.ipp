#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/name_pattern.hpp>

namespace ikebana::detail {

IKEBANA_INLINE bool matches_pattern(const std::string& name, const std::string& pattern) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

}  // namespace ikebana::detail
