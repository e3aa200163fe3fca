#pragma once
// The pre-tokenizers of tokenizer.json, each as a step that cuts pieces into smaller ones.
#include <ikebana/tokenizer/fields.hpp>
#include <ikebana/tokenizer/pieces.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana::detail::tokenizer {

/// The treatment of the matches of a pattern by which a text is cut.
enum class SplitBehavior { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };
/// The pieces that Metaspace puts its character before.
enum class PrependScheme { EachPiece, First, Never };

/// One pre-tokenizer. A Sequence is several steps, and so are ByteLevel and BertPreTokenizer.
struct PretokenizerStep {
  enum class Kind {
    Split,
    PrefixSpace,
    ByteLevel,
    Digits,
    Whitespace,
    WhitespaceSplit,
    Punctuation,
    Metaspace,
    Delimiter
  };
  Kind kind = Kind::Split;
  std::optional<Regex> pattern{};  // Split
  SplitBehavior behavior = SplitBehavior::Isolated;
  bool is_inverted = false;                             // Split
  std::string text{};                                   // Metaspace: its character
  char32_t delimiter = 0;                               // Delimiter, Metaspace
  PrependScheme prepend_scheme = PrependScheme::Never;  // Metaspace
  bool splits = true;                                   // Metaspace
};

/// Reads a pre-tokenizer, which may be null.
std::vector<PretokenizerStep> read_pretokenizer(const JsonValue& value, const std::string& place,
                                                Refusals& refusals);
/// Applies a step to all pieces that are no token.
void apply(const PretokenizerStep& step, Pieces& pieces);
/// Reads the name of a behavior.
SplitBehavior read_behavior(Fields& fields, std::optional<SplitBehavior> otherwise = {});

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/pretokenizers.ipp>
