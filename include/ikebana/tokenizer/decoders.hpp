#pragma once
// The decoders of tokenizer.json, as a chain through which tokens pass one at a time. A whole text
// is decoded by the same chain, so that a stream gives the same.
#include <ikebana/tokenizer/fields.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail::tokenizer {

/// One decoder. A Sequence is several steps.
struct DecoderStep {
  enum class Kind {
    ByteLevel,
    ByteFallback,
    Fuse,
    Replace,
    Strip,
    Metaspace,
    WordPiece,
    BpeSuffix,
    JoinBySpaces
  };
  Kind kind = Kind::Fuse;
  std::optional<Regex> pattern{};   // Replace
  bool is_one_character = false;    // Replace: the pattern is the text of one character
  std::string text{};               // Replace: the content; WordPiece: the prefix; BpeSuffix
  char32_t character = 0;           // Strip, Metaspace
  std::size_t start = 0, stop = 0;  // Strip
  bool flag = false;  // WordPiece: it cleans up; Metaspace: the first token's are removed
};

/// Reads a decoder. None joins the tokens by spaces.
std::vector<DecoderStep> read_decoder(const JsonValue& value, const std::string& place,
                                      Refusals& refusals);

/// The state of a chain of decoders in the middle of a text.
class DecoderChain {
 public:
  explicit DecoderChain(const std::vector<DecoderStep>& steps);
  /// Appends to `out` what is sure to be text after one more token. It is UTF-8.
  void push(std::string_view token, std::string& out) { step(0, token, out); }
  /// Appends the rest of the text, and begins with a new one.
  void finish(std::string& out);

 private:
  struct State {
    bool is_fused = false;  // what comes in are parts of a single token
    std::size_t tokens = 0, count = 0;
    bool is_past_start = false;
    std::string held{};
  };
  void step(std::size_t i, std::string_view text, std::string& out);
  void flush(std::size_t i, std::string& out);
  void byte_level(std::size_t i, std::string_view token, std::string& out);
  void byte_fallback(std::size_t i, std::string_view token, std::string& out);
  void end_bytes(std::size_t i, std::string& out);
  void strip_fused(std::size_t i, std::string_view text, std::string& out);
  bool holds_all(std::size_t i) const;
  std::string changed(const DecoderStep& step, std::string_view token, std::size_t index) const;

  const std::vector<DecoderStep>* steps_;
  std::vector<State> states_;
};

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/decoders.ipp>
