#pragma once
#include <cstring>
#include <ikebana/tokenizer/utf8.hpp>

namespace ikebana::detail::tokenizer {

inline Utf8Step utf8_step(std::string_view text) {
  auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {1, true, false};
  if (first < 0xc2 || first > 0xf4) return {1, false, false};
  const std::size_t n = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  for (std::size_t i = 1; i < n; ++i) {
    if (i == text.size()) return {i, false, true};
    unsigned least = 0x80, most = 0xbf;
    if (i == 1 && first == 0xe0) least = 0xa0;
    if (i == 1 && first == 0xed) most = 0x9f;
    if (i == 1 && first == 0xf0) least = 0x90;
    if (i == 1 && first == 0xf4) most = 0x8f;
    if (byte(i) < least || byte(i) > most) return {i, false, false};
  }
  return {n, true, false};
}

inline std::size_t first_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;
    if (text.size() - at >= sizeof eight) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & 0x8080808080808080u) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const Utf8Step step = utf8_step(text.substr(at));
    if (!step.is_valid) return at;
    at += step.bytes;
  }
  return text.npos;
}

inline std::string with_replacements(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t valid = std::min(first_invalid_utf8(text), text.size());
    out += text.substr(0, valid);
    text.remove_prefix(valid);
    if (text.empty()) break;
    out += replacement_character;
    text.remove_prefix(utf8_step(text).bytes);
  }
  return out;
}

}  // namespace ikebana::detail::tokenizer
