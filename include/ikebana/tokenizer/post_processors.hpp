#pragma once
// The post-processors of tokenizer.json for one text: tokens before and after it, and offsets
// without spaces.
#include <ikebana/tokenizer/fields.hpp>
#include <ikebana/tokenizer/options.hpp>
#include <ikebana/tokenizer/token_table.hpp>
#include <string>
#include <vector>

namespace ikebana::detail::tokenizer {

/// A part of a template: the text's tokens, or tokens that are added.
struct TemplatePart {
  bool is_text = false;
  std::vector<std::int32_t> ids{};
};

/// The work of all post-processors, in the order of the file.
struct PostProcessor {
  bool has_template = false;
  std::vector<TemplatePart> parts{};  ///< with `has_template`
  /// The offsets are trimmed: once per entry, which is `add_prefix_space`.
  std::vector<bool> trims{};

  /// Returns the number of tokens that are added to a text.
  std::size_t added_tokens() const;
};

/// Reads a post-processor, which may be null. `tokens(id)` returns the text of a token, or null.
template <class Tokens>
PostProcessor read_post_processor(const JsonValue& value, const std::string& place,
                                  const Tokens& tokens, Refusals& refusals);

/// The length from which the file shortens texts.
struct Truncation {
  std::size_t max_length = 0;
  bool keeps_end = false;  ///< the direction is Left
};
/// The length to which the file fills texts.
struct Padding {
  bool is_fixed = false;  ///< false: as long as the longest of the batch
  std::size_t fixed = 0;
  std::size_t multiple = 0;
  bool is_left = false;
  std::int32_t id = 0;
};

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/post_processors.ipp>
