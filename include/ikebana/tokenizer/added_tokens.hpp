#pragma once
// Finds added tokens in a text: the leftmost, and the longest of the tokens that begin there.
#include <array>
#include <ikebana/tokenizer/options.hpp>
#include <ikebana/tokenizer/pieces.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace ikebana::detail::tokenizer {

/// Added tokens that are sought together: all that are normalized, or all others.
class AddedTokenFinder {
 public:
  /// `content` is what is sought, which normalizing may have changed; it is not empty. If two have
  /// the same content, the first is found.
  void add(AddedToken token, std::string content);
  /// Sorts what was added; call it once, before `cut`.
  void finish();
  /// Makes pieces of the added tokens in all pieces that are no token.
  void cut(Pieces& pieces) const;

 private:
  struct Sought {
    AddedToken token;
    std::string content;
  };
  const Sought* find(std::string_view text, std::size_t at) const;
  void cut(std::string_view text, const Piece& piece, std::vector<Piece>& out) const;

  std::vector<Sought> sought_;              // by first byte, the longest first
  std::array<std::uint32_t, 257> begin_{};  // by first byte
};

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/added_tokens.ipp>
