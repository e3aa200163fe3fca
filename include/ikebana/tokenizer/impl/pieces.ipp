#pragma once
#include <ikebana/tokenizer/pieces.hpp>
#include <ikebana/tokenizer/utf8.hpp>

namespace ikebana::detail::tokenizer {

inline void Pieces::assign(std::string_view text, bool keeps_spans) {
  text_ = text;
  end_ = static_cast<std::uint32_t>(text.size());
  keeps_spans_ = keeps_spans;
  spans_.clear(), pieces_.clear();
  if (!text.empty()) pieces_.push_back({0, end_, -1, 0});
  if (!keeps_spans) return;
  spans_.reserve(text.size());
  for (std::uint32_t at = 0; at < end_;) {
    const auto bytes = static_cast<std::uint32_t>(read_utf8(text, at).bytes);
    spans_.insert(spans_.end(), bytes, {at, at + bytes});
    at += bytes;
  }
}

inline void Pieces::append(std::string_view bytes, std::uint32_t source) {
  next_ += bytes;
  if (keeps_spans_) next_spans_.insert(next_spans_.end(), bytes.size(), spans_[source]);
}

inline void Pieces::keep(std::uint32_t begin, std::uint32_t end) {
  next_ += text_.substr(begin, end - begin);
  if (keeps_spans_)
    next_spans_.insert(next_spans_.end(), spans_.begin() + begin, spans_.begin() + end);
}

inline void Pieces::change(const Piece& piece, const std::vector<Change>& changes,
                           std::size_t removed) {
  if (!keeps_spans_) {
    for (const Change& c : changes) append_utf8(next_, c.character);
    return;
  }
  std::uint32_t offset = piece.begin, read = piece.begin;  // next span, next character replaced
  auto skip = [&](std::size_t n) {
    const std::uint32_t from = read;
    for (; n > 0 && read < piece.end; --n)
      read += static_cast<std::uint32_t>(read_utf8(text_, read).bytes);
    return read - from;
  };
  offset += skip(removed);
  for (const Change& c : changes) {
    Span span{piece.origin, piece.origin};
    if (c.change <= 0 && offset < spans_.size()) span = spans_[offset];
    else if (offset > piece.begin) span = spans_[offset - 1];
    const std::size_t before = next_.size();
    append_utf8(next_, c.character);
    next_spans_.insert(next_spans_.end(), next_.size() - before, span);
    if (c.change <= 0) offset += skip(1 + static_cast<std::size_t>(-c.change));
  }
}

}  // namespace ikebana::detail::tokenizer
