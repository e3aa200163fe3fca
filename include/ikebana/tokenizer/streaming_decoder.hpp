#pragma once
// Decodes ids one at a time, as a model generates them.
#include <ikebana/tokenizer/core.hpp>
#include <ikebana/tokenizer/tokenizer.hpp>
#include <string>

namespace ikebana {

/// Gives the text of ids one at a time. Text comes out as soon as it is sure, only as whole UTF-8
/// characters; all of it together, with `finish`, equals `Tokenizer::decode`.
///
/// Cost: what `decode` costs for one token, whatever came before. Some decoders know the text only
/// later: one of `end_of_word_suffix` is a token late, bytes of ByteFallback come out when the next
/// other token does, and a Replace or a cleanup after Fuse holds all text until `finish`.
class StreamingDecoder {
 public:
  /// Takes the tokenizer, whose tokens it shares, and the options of `Tokenizer::decode`.
  explicit StreamingDecoder(const Tokenizer& tokenizer, const DecodeOptions& options = {})
      : core_(tokenizer.core_), options_(options), chain_(core_->decoder()) {}
  StreamingDecoder(const StreamingDecoder&) = delete;
  StreamingDecoder& operator=(const StreamingDecoder&) = delete;

  /// Takes the next id, and returns the text that is sure now; it may be empty. Throws BadValue for
  /// an id that is no token, which changes nothing.
  std::string step(std::int32_t id) {
    std::string out;
    append(id, out);
    return out;
  }
  /// Returns the rest of the text, and begins with a new one.
  std::string finish() {
    std::string out;
    chain_.finish(out);
    return out;
  }

 private:
  friend class Tokenizer;
  void append(std::int32_t id, std::string& out) {
    bool is_special = false;
    const auto token = core_->token(id, &is_special);
    if (!token)
      throw BadValue("decode: " + std::to_string(id) + " is the id of no token; the largest is " +
                     std::to_string(core_->largest_id()) +
                     ". Decode ids of the tokenizer that encoded them.");
    if (!is_special || !options_.skip_special_tokens) chain_.push(*token, out);
  }

  std::shared_ptr<const detail::tokenizer::TokenizerCore> core_;
  DecodeOptions options_;
  detail::tokenizer::DecoderChain chain_;
};

inline std::string Tokenizer::decode(const std::vector<std::int32_t>& ids,
                                     const DecodeOptions& options) const {
  StreamingDecoder decoder(*this, options);
  std::string out;
  for (const std::int32_t id : ids) decoder.append(id, out);
  return out += decoder.finish();
}

}  // namespace ikebana
