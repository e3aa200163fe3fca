#pragma once
// Compares names with shell patterns.
#include <fnmatch.h>

#include <string>

namespace ikebana::detail {

/// Returns true if `name` matches a shell pattern with `*`, `?` and `[...]`. `*` also matches dots.
bool matches_pattern(const std::string& name, const std::string& pattern);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/name_pattern.ipp>
#endif
