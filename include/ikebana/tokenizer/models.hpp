#pragma once
// The models of tokenizer.json, which make tokens of a piece: BPE, WordPiece, Unigram, WordLevel.
#include <ikebana/tokenizer/fields.hpp>
#include <ikebana/tokenizer/token_table.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ikebana::detail::tokenizer {

/// A token of a piece, and the bytes of the piece that it stands for.
struct WordToken {
  std::int32_t id = 0;
  std::uint32_t begin = 0, end = 0;
};

/// A model: its vocabulary, and how a piece becomes tokens. Several threads may use it.
class Model {
 public:
  Model() = default;
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  virtual ~Model() = default;
  /// Appends the tokens of a piece, which is UTF-8 and not empty. Throws BadValue for what the
  /// vocabulary has no token for, if it has no unknown token either.
  virtual void tokenize(std::string_view word, std::vector<WordToken>& out) const = 0;
  const TokenTable& vocabulary() const { return vocabulary_; }

 protected:
  [[noreturn]] static void no_unknown_token(std::string_view word, const std::string& token);
  /// Appends the ids of `<0x00>` to `<0xFF>` for bytes; returns false if one is not there.
  bool append_bytes(std::string_view bytes, std::vector<WordToken>& out) const;

  TokenTable vocabulary_;
};

/// The parts of the field `model` that are long, as they were read.
struct ModelFile {
  JsonValue settings{};  ///< the other fields
  TokenTable vocabulary{};
  std::vector<std::pair<std::string, double>> scores{};       ///< the vocabulary of Unigram
  std::vector<std::pair<std::string, std::string>> merges{};  ///< for BPE
  bool has_vocabulary = false, has_scores = false, has_merges = false;
};

/// Reads the field `model`; the errors of its vocabulary are ParseErrors of `json`, which reads
/// `text`.
ModelFile read_model_file(Json& json, std::string_view text);
/// Makes the model. Returns null if something was refused.
std::unique_ptr<const Model> make_model(ModelFile&& file, Refusals& refusals);

std::unique_ptr<const Model> make_bpe(ModelFile&& file, Fields& fields);
std::unique_ptr<const Model> make_word_piece(ModelFile&& file, Fields& fields);
std::unique_ptr<const Model> make_unigram(ModelFile&& file, Fields& fields);
std::unique_ptr<const Model> make_word_level(ModelFile&& file, Fields& fields);

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/bpe.ipp>
#include <ikebana/tokenizer/impl/models.ipp>
#include <ikebana/tokenizer/impl/unigram.ipp>
#include <ikebana/tokenizer/impl/word_piece.ipp>
