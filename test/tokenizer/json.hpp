#pragma once
// Small files of tokenizers for the tests.
#include <ikebana/tokenizer.hpp>
#include <string>
#include <utility>
#include <vector>

#include "test.hpp"

namespace test::tokenizer {

using ikebana::Tokenizer;
using Ids = std::vector<std::int32_t>;

/// Returns a text as JSON.
inline std::string as_json(std::string_view text) { return ikebana::Json::quoted(text); }

/// Returns `"vocab": {...}` with the ids in this order.
inline std::string vocabulary(const std::vector<std::string>& tokens) {
  std::string out = "\"vocab\":{";
  for (std::size_t i = 0; i < tokens.size(); ++i)
    out += (i > 0 ? "," : "") + as_json(tokens[i]) + ":" + std::to_string(i);
  return out + "}";
}

/// Returns a tokenizer.json with these parts. `model` is the inside of the model's object.
struct Parts {
  std::string model = R"("type":"WordLevel","unk_token":"?","vocab":{"?":0,"a":1,"b":2})";
  std::string normalizer = "null", pre_tokenizer = "null", post_processor = "null";
  std::string decoder = "null", added_tokens = "[]", truncation = "null", padding = "null";
};
inline std::string json(const Parts& p) {
  return R"({"version":"1.0","truncation":)" + p.truncation + R"(,"padding":)" + p.padding +
         R"(,"added_tokens":)" + p.added_tokens + R"(,"normalizer":)" + p.normalizer +
         R"(,"pre_tokenizer":)" + p.pre_tokenizer + R"(,"post_processor":)" + p.post_processor +
         R"(,"decoder":)" + p.decoder + R"(,"model":{)" + p.model + "}}";
}
inline Tokenizer made(const Parts& parts) { return Tokenizer::from_str(json(parts)); }

/// Returns an added token.
inline std::string added(int id, const std::string& content, const std::string& flags = "") {
  std::string out = "{\"id\":" + std::to_string(id) + ",\"content\":" + as_json(content);
  for (const std::string flag : {"single_word", "lstrip", "rstrip", "normalized", "special"})
    out += ",\"" + flag + "\":" + (flags.find(flag) == flags.npos ? "false" : "true");
  return out + "}";
}

/// A byte-level tokenizer: the bytes are the ids 0 to 255, in the order of their values, then come
/// merges and `<|endoftext|>`.
inline Parts byte_level(const std::vector<std::pair<std::string, std::string>>& merges = {}) {
  std::vector<std::string> tokens = ikebana::detail::tokenizer::byte_characters();
  std::string list;
  for (const auto& [a, b] : merges) {
    tokens.push_back(a + b);
    list += (list.empty() ? "[" : ",[") + as_json(a) + "," + as_json(b) + "]";
  }
  return {.model = R"("type":"BPE","merges":[)" + list + "]," + vocabulary(tokens),
          .pre_tokenizer = R"({"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true})",
          .decoder = R"({"type":"ByteLevel"})",
          .added_tokens =
              "[" + added(static_cast<int>(tokens.size()), "<|endoftext|>", "special") + "]"};
}
/// Merges of English.
inline std::vector<std::pair<std::string, std::string>> some_merges() {
  return {{"t", "h"}, {"th", "e"}, {"Ġ", "the"}, {"i", "n"}, {"Ġ", "a"}, {"e", "r"}, {"o", "n"}};
}

inline std::string replaced(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

}  // namespace test::tokenizer
