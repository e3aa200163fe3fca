#pragma once
// Which names a rule may have meant that matches none.
#include <cstddef>
#include <ikebana/detail/text.hpp>

namespace ikebana::detail {

/// The smallest number of characters to change, insert or remove so that the shell pattern matches
/// `name`. `*` is any characters, `?` is one; a set in brackets is taken for its characters.
std::size_t edits_to_match(const std::string& name, const std::string& pattern);
/// The same, where a `*` that was left out before or after a pattern counts as one.
std::size_t distance_of(const std::string& name, const std::vector<std::string>& patterns);

/// Texts in backticks, with commas between them; the first three of more.
std::string quoted_list(const std::vector<std::string>& texts);
/// For the error of a rule that is true for none of `names`: its patterns, how many names there
/// are, and the nearest of them; of a rule that is a function, some. In parentheses.
std::string nearest_names(const std::vector<std::string>& patterns, std::vector<std::string> names);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/detail/impl/nearest_names.ipp>
#endif
