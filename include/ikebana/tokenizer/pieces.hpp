#pragma once
// A text that is being cut into pieces: one buffer, the pieces in it, and where each byte of the
// buffer came from. Normalizers and pre-tokenizers change it step by step.
#include <cstdint>
#include <ikebana/tokenizer/unicode.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail::tokenizer {

/// A range of bytes of the text that was given.
struct Span {
  std::uint32_t begin = 0, end = 0;
};

/// A part of the buffer: text for the model, or an added token.
struct Piece {
  std::uint32_t begin = 0, end = 0;  ///< bytes of the buffer
  std::int32_t token = -1;           ///< the id of an added token, or -1
  std::uint32_t origin = 0;          ///< the byte of the text at which the piece begins
};

/// A text and its pieces, in order. Bytes between pieces are left out.
class Pieces {
 public:
  /// Begins with one piece, the whole text. `keeps_spans`: each byte's origin is kept.
  void assign(std::string_view text, bool keeps_spans);

  std::string_view text() const { return text_; }
  std::string_view text(const Piece& piece) const {
    return text_.substr(piece.begin, piece.end - piece.begin);
  }
  std::vector<Piece>& pieces() { return pieces_; }
  const std::vector<Piece>& pieces() const { return pieces_; }
  bool keeps_spans() const { return keeps_spans_; }
  /// Returns the byte of the given text at which a byte of the buffer begins.
  std::uint32_t origin(std::uint32_t at) const {
    return !keeps_spans_ ? at : at < spans_.size() ? spans_[at].begin : end_;
  }
  /// Returns the range of the given text that bytes of the buffer came from.
  Span span(std::uint32_t begin, std::uint32_t end) const {
    return {spans_[begin].begin, spans_[end - 1].end};
  }
  std::size_t size_in_spans() const { return spans_.size(); }

  /// Replaces the text of each piece that is no token. `edit(piece)` returns false to leave it, or
  /// calls `change` or `replace_text` once.
  template <class Edit>
  void edit(Edit&& edit);
  /// Within `edit`: the new text of the piece, by changes to its characters. `removed`: the number
  /// of characters that are removed at its beginning.
  void change(const Piece& piece, const std::vector<Change>& changes, std::size_t removed);
  /// Within `edit`: appends bytes that came from the byte `source` of the buffer.
  void append(std::string_view bytes, std::uint32_t source);
  /// Within `edit`: appends bytes of the buffer as they are.
  void keep(std::uint32_t begin, std::uint32_t end);

  /// Replaces each piece that is no token by the pieces that `cut(piece, out)` appends to `out`;
  /// empty ones are left out.
  template <class Cut>
  void cut(Cut&& cut);

 private:
  std::string_view text_;  // a view of `own_`, or of the given text
  std::string own_, next_;
  std::vector<Span> spans_, next_spans_;
  std::vector<Piece> pieces_, next_pieces_;
  bool keeps_spans_ = false;
  std::uint32_t end_ = 0;
};

template <class Edit>
void Pieces::edit(Edit&& edit) {
  next_.clear(), next_spans_.clear();
  next_.reserve(text_.size() + text_.size() / 8);
  for (Piece& piece : pieces_) {
    const auto begin = static_cast<std::uint32_t>(next_.size());
    if (piece.token >= 0 || !edit(piece)) keep(piece.begin, piece.end);
    piece.begin = begin, piece.end = static_cast<std::uint32_t>(next_.size());
  }
  own_.swap(next_), spans_.swap(next_spans_);
  text_ = own_;
}

template <class Cut>
void Pieces::cut(Cut&& cut) {
  next_pieces_.clear();
  for (const Piece& piece : pieces_) {
    if (piece.token >= 0) {
      next_pieces_.push_back(piece);
      continue;
    }
    const std::size_t first = next_pieces_.size();
    cut(piece, next_pieces_);
    std::size_t kept = first;
    for (std::size_t i = first; i < next_pieces_.size(); ++i) {
      if (next_pieces_[i].begin == next_pieces_[i].end) continue;
      next_pieces_[kept] = next_pieces_[i];
      next_pieces_[kept].origin = origin(next_pieces_[kept].begin);
      ++kept;
    }
    next_pieces_.resize(kept);
  }
  pieces_.swap(next_pieces_);
}

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/pieces.ipp>
