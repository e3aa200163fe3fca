#pragma once
#include <algorithm>
#include <ikebana/tokenizer/added_tokens.hpp>
#include <ikebana/tokenizer/utf8.hpp>

namespace ikebana::detail::tokenizer {

inline void AddedTokenFinder::add(AddedToken token, std::string content) {
  sought_.push_back({std::move(token), std::move(content)});
}

inline void AddedTokenFinder::finish() {
  auto first = [](const Sought& s) { return static_cast<unsigned char>(s.content[0]); };
  std::stable_sort(sought_.begin(), sought_.end(), [&](const Sought& a, const Sought& b) {
    return first(a) != first(b) ? first(a) < first(b) : a.content.size() > b.content.size();
  });
  for (std::size_t byte = 0; byte <= 256; ++byte)
    begin_[byte] = static_cast<std::uint32_t>(
        std::partition_point(sought_.begin(), sought_.end(),
                             [&](const Sought& s) { return first(s) < byte; }) -
        sought_.begin());
}

inline const AddedTokenFinder::Sought* AddedTokenFinder::find(std::string_view text,
                                                              std::size_t at) const {
  const auto byte = static_cast<unsigned char>(text[at]);
  for (std::uint32_t i = begin_[byte]; i < begin_[byte + 1u]; ++i)
    if (text.substr(at).starts_with(sought_[i].content)) return &sought_[i];
  return nullptr;
}

inline void AddedTokenFinder::cut(std::string_view text, const Piece& piece,
                                  std::vector<Piece>& out) const {
  auto push = [&](std::size_t begin, std::size_t end, std::int32_t token) {
    out.push_back({piece.begin + static_cast<std::uint32_t>(begin),
                   piece.begin + static_cast<std::uint32_t>(end), token, 0});
  };
  auto is_word = [&](std::size_t at) { return word_characters().has(read_utf8(text, at).point); };
  std::size_t covered = 0;
  for (std::size_t at = 0; at < text.size();) {
    const Sought* sought = find(text, at);
    if (sought == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at, end = at + sought->content.size();
    at = end;
    const AddedToken& token = sought->token;
    if (token.single_word &&
        ((begin > 0 && is_word(before_utf8(text, begin))) || (end < text.size() && is_word(end))))
      continue;
    while (token.lstrip && begin > covered &&
           is_white_space(read_utf8(text, before_utf8(text, begin)).point))
      begin = before_utf8(text, begin);
    begin = token.lstrip ? std::max(begin, covered) : begin;
    while (token.rstrip && end < text.size() && is_white_space(read_utf8(text, end).point))
      end += read_utf8(text, end).bytes;
    if (covered < begin) push(covered, begin, -1);
    push(begin, end, token.id);
    covered = end;
  }
  if (covered != text.size()) push(covered, text.size(), -1);
}

inline void AddedTokenFinder::cut(Pieces& pieces) const {
  pieces.cut([&](const Piece& piece, std::vector<Piece>& out) {
    if (sought_.empty()) out.push_back(piece);
    else cut(pieces.text(piece), piece, out);
  });
}

}  // namespace ikebana::detail::tokenizer
