#pragma once
// The options and the results of a tokenizer.
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace ikebana {

/// The choices for bytes that are not UTF-8.
enum class InvalidUtf8 {
  Throw,   ///< BadValue, which names the first such byte
  Replace  ///< U+FFFD takes the place of each, as in Python's `bytes.decode(errors="replace")`
};

/// The options of `Tokenizer::encode`.
struct EncodeOptions {
  bool add_special_tokens = true;  ///< the tokens of the post-processor, such as `<s>` or `[CLS]`
  InvalidUtf8 invalid_utf8 = InvalidUtf8::Throw;  ///< what happens with bytes that are not UTF-8
  int num_threads = 0;  ///< the threads of `encode_batch`; 0: as many as the processor has
};

/// The options of `Tokenizer::decode`.
struct DecodeOptions {
  bool skip_special_tokens = true;  ///< leave out the added tokens that are special
};

/// The tokens of a text, and the bytes of the text that each stands for.
struct Encoding {
  std::vector<std::int32_t> ids;  ///< one per token
  /// The first byte of the text, and the one after the last, per token; {0, 0} for a token that the
  /// post-processor or padding added.
  std::vector<std::pair<std::size_t, std::size_t>> offsets;
};

/// A token that is found in the text before the model sees it. The fields are Hugging Face's.
struct AddedToken {
  std::int32_t id = 0;       ///< its id
  std::string content;       ///< its text
  bool single_word = false;  ///< it is not found next to a letter or digit
  bool lstrip = false;       ///< it takes the whitespace before it
  bool rstrip = false;       ///< it takes the whitespace after it
  bool normalized = false;   ///< it is sought in the normalized text
  bool special = false;      ///< `decode` leaves it out
};

}  // namespace ikebana
