#pragma once
// Regular expressions as tokenizer.json has them, which are Oniguruma's: each is translated to one
// of PCRE2 that means the same, or refused.
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail::tokenizer {

/// A reason to refuse, as a clause without a full stop.
struct Refused {
  std::string what;
};

/// A range that matches a pattern, or one between two matches.
struct Match {
  std::size_t begin = 0, end = 0;
  bool is_match = false;
};

/// Translates a regular expression of Oniguruma's to one of PCRE2's. Throws Refused for what would
/// mean something else, and for what is not known here.
std::string to_pcre2(std::string_view pattern);
/// Returns a regular expression of PCRE2's for a text as it is.
std::string quoted_for_pcre2(std::string_view text);

/// A compiled regular expression; `find` may be called by several threads at once.
class Regex {
 public:
  /// `pattern` is PCRE2's. Throws Refused if PCRE2 does.
  explicit Regex(const std::string& pattern);
  /// Cuts a text into matches and what is between them; it is covered without a gap. An empty match
  /// right after a match is left out.
  void find(std::string_view text, std::vector<Match>& out) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
  std::string pattern_;
};

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/regex.ipp>
#include <ikebana/tokenizer/impl/regex_syntax.ipp>
