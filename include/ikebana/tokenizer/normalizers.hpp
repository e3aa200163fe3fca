#pragma once
// The normalizers of tokenizer.json, each as a step that changes the text of pieces.
#include <ikebana/tokenizer/fields.hpp>
#include <ikebana/tokenizer/pieces.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail::tokenizer {

/// One normalizer. A Sequence is several steps.
struct NormalizerStep {
  enum class Kind {
    NFC,
    NFD,
    NFKC,
    NFKD,
    Lowercase,
    Strip,
    StripAccents,
    Replace,
    Prepend,
    ByteLevel,
    Nmt,
    CleanText,
    ChineseCharacters,
    StripMarks  // the last three are parts of BertNormalizer
  };
  Kind kind = Kind::NFC;
  bool strips_left = false, strips_right = false;  // Strip
  std::optional<Regex> pattern{};                  // Replace
  std::string text{};                              // Replace: the content; Prepend
};

/// Reads a normalizer, which may be null.
std::vector<NormalizerStep> read_normalizer(const JsonValue& value, const std::string& place,
                                            Refusals& refusals);
/// Applies a step to all pieces that are no token.
void apply(const NormalizerStep& step, Pieces& pieces);

/// Returns GPT-2's character for each byte, in UTF-8.
const std::vector<std::string>& byte_characters();
/// Replaces each byte by GPT-2's character for it.
void apply_byte_level(Pieces& pieces);
/// Replaces the matches in all pieces.
void replace_matches(Pieces& pieces, const Regex& pattern, const std::string& content);
/// Puts a text before a piece, within `Pieces::edit`.
inline void prepend(Pieces& pieces, const Piece& piece, std::string_view text) {
  pieces.append(text, piece.begin);
  pieces.keep(piece.begin, piece.end);
}

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/normalizers.ipp>
