#pragma once
// Finds the names that a rule may have meant if it matches no name.
#include <cstddef>
#include <ikebana/detail/text.hpp>

namespace ikebana::detail {

/// Returns the smallest number of characters to change, insert or remove so that the shell pattern
/// matches `name`. `*` matches any characters and `?` one; a set in brackets counts as its
/// characters.
std::size_t edits_to_match(const std::string& name, const std::string& pattern);
/// Returns that number, in which a `*` that is missing before or after the pattern counts as one
/// character.
std::size_t distance_of(const std::string& name, const std::vector<std::string>& patterns);

/// Writes up to three texts in backticks, with commas between them.
std::string quoted_list(const std::vector<std::string>& texts);
/// Writes a part of the error for a rule that is true for none of `names`, in parentheses: the
/// rule's patterns, the number of names, and the nearest names, or some names if the rule is a
/// function.
std::string nearest_names(const std::vector<std::string>& patterns, std::vector<std::string> names);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/nearest_names.ipp>
#endif
