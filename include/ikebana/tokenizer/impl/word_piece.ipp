#pragma once
// WordPiece, the longest token of a piece's beginning again and again, and WordLevel, whole pieces.
#include <ikebana/tokenizer/models.hpp>
#include <ikebana/tokenizer/utf8.hpp>

namespace ikebana::detail::tokenizer {

class WordPiece : public Model {
 public:
  WordPiece(ModelFile&& file, Fields& fields)
      : unknown_(fields.string("unk_token")),
        prefix_(fields.string("continuing_subword_prefix")),
        most_characters_(fields.integer("max_input_chars_per_word")) {
    vocabulary_ = std::move(file.vocabulary);
    if (file.has_merges) fields.refuse("merges", "is not known for WordPiece");
  }

  void tokenize(std::string_view word, std::vector<WordToken>& out) const override {
    const std::size_t first = out.size();
    std::int64_t characters = 0;
    for (const char c : word) characters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
    std::string piece;
    for (std::size_t begin = 0; begin < word.size() && characters <= most_characters_;) {
      const std::size_t end = longest_token(word, begin, piece);
      if (end == begin) break;
      out.push_back({vocabulary_.find(piece), static_cast<std::uint32_t>(begin),
                     static_cast<std::uint32_t>(end)});
      begin = end;
    }
    const auto size = static_cast<std::uint32_t>(word.size());
    if (out.size() > first && out.back().end == size) return;
    out.resize(first);
    const std::int32_t id = vocabulary_.find(unknown_);
    if (id < 0) no_unknown_token(word, unknown_);
    out.push_back({id, 0, size});
  }

 private:
  /// Returns the end of the longest token that begins at `begin`, and `begin` if no token does.
  std::size_t longest_token(std::string_view word, std::size_t begin, std::string& piece) const {
    std::size_t end = word.size();
    if (end - begin > vocabulary_.longest()) {  // a longer text is no token
      end = begin + vocabulary_.longest();
      while (end > begin && (static_cast<unsigned char>(word[end]) & 0xc0) == 0x80) --end;
    }
    for (; end > begin; end = before_utf8(word, end)) {
      piece = begin > 0 ? prefix_ : "";
      piece += word.substr(begin, end - begin);
      if (vocabulary_.find(piece) >= 0) break;
    }
    return end;
  }

  std::string unknown_, prefix_;
  std::int64_t most_characters_;
};

class WordLevel : public Model {
 public:
  WordLevel(ModelFile&& file, Fields& fields) : unknown_(fields.string("unk_token")) {
    vocabulary_ = std::move(file.vocabulary);
    if (file.has_merges) fields.refuse("merges", "is not known for WordLevel");
  }

  void tokenize(std::string_view word, std::vector<WordToken>& out) const override {
    std::int32_t id = vocabulary_.find(word);
    if (id < 0) id = vocabulary_.find(unknown_);
    if (id < 0) no_unknown_token(word, unknown_);
    out.push_back({id, 0, static_cast<std::uint32_t>(word.size())});
  }

 private:
  std::string unknown_;
};

inline std::unique_ptr<const Model> make_word_piece(ModelFile&& file, Fields& fields) {
  return std::make_unique<const WordPiece>(std::move(file), fields);
}
inline std::unique_ptr<const Model> make_word_level(ModelFile&& file, Fields& fields) {
  return std::make_unique<const WordLevel>(std::move(file), fields);
}

}  // namespace ikebana::detail::tokenizer
