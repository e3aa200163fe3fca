#pragma once
// Defines Tokenizer, which reads Hugging Face's tokenizer.json and turns text into ids and back.
#include <filesystem>
#include <ikebana/tokenizer/options.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace at {
class Tensor;
}  // namespace at

namespace ikebana {

namespace detail::tokenizer {
class TokenizerCore;
}  // namespace detail::tokenizer

/// A tokenizer as Hugging Face's `tokenizers` writes it to a file. It gives the ids
/// that `tokenizers` gives; what the file asks for and is not supported is named by one error when
/// it is read.
/// Copies share the vocabulary. All const methods may be called by several threads at once.
///
/// Cost: a tokenizer has its vocabulary in memory, and about 2 MB per thread that encodes, for
/// pieces that were met before.
///
/// Source: docs/tokenizer.md.
class Tokenizer {
 public:
  /// Reads a tokenizer.json. Throws FileFailed if it cannot be opened, BadFile if it is damaged, or
  /// asks for what is not supported; the text names all of it.
  static Tokenizer from_file(const std::filesystem::path& path);
  /// Reads the text of a tokenizer.json.
  static Tokenizer from_str(std::string_view json);

  /// Returns the ids of a text, which is UTF-8. Throws BadValue for bytes that are not, unless
  /// `invalid_utf8` says otherwise, and for a text of more than 1 GiB. An empty text has no ids but
  /// the special ones.
  std::vector<std::int32_t> encode(std::string_view text, const EncodeOptions& options = {}) const;
  /// Returns the ids of a text, and the bytes that each stands for. Takes several times as long.
  Encoding encode_with_offsets(std::string_view text, const EncodeOptions& options = {}) const;
  /// Encodes texts on several threads. If the file pads, all become as long as the longest. An
  /// exception names the first text that failed.
  std::vector<std::vector<std::int32_t>> encode_batch(const std::vector<std::string>& texts,
                                                      const EncodeOptions& options = {}) const;
  /// Returns the ids of a text as a tensor of dtype Long, shape (tokens).
  at::Tensor encode_tensor(std::string_view text, const EncodeOptions& options = {}) const;

  /// Returns the text of ids. It is UTF-8; bytes that make no character are U+FFFD. Throws BadValue
  /// for an id that is no token.
  std::string decode(const std::vector<std::int32_t>& ids, const DecodeOptions& options = {}) const;
  /// Returns the text of a tensor of integers with one dimension, on any device.
  std::string decode(const at::Tensor& ids, const DecodeOptions& options = {}) const;

  /// Returns the id of a token, and nothing for what is no token.
  std::optional<std::int32_t> token_to_id(std::string_view token) const;
  /// Returns the token with an id, as the vocabulary spells it.
  std::optional<std::string> id_to_token(std::int32_t id) const;
  /// Returns the number of tokens, with added ones. An embedding needs `largest_id() + 1` rows,
  /// which is more if ids are left out.
  std::int64_t vocab_size() const;
  /// Returns the largest id of a token; -1 without any.
  std::int64_t largest_id() const;
  /// Returns the added tokens, by id.
  const std::vector<AddedToken>& get_added_tokens() const;

  /// Returns whether the file shortens texts, as its `truncation` says.
  bool truncates() const;
  /// Returns whether the file makes texts longer, as its `padding` says.
  bool pads() const;
  /// Encodes whole texts from now on, also if the file says otherwise.
  void no_truncation();
  /// Adds no padding from now on, also if the file says otherwise.
  void no_padding();

  /// Returns a hash of the file's bytes, and of whether it truncates and pads: two tokenizers with
  /// the same hash give the same ids. It is the same in each process.
  std::uint64_t hash() const;

 private:
  friend class StreamingDecoder;
  explicit Tokenizer(std::shared_ptr<const detail::tokenizer::TokenizerCore> core)
      : core_(std::move(core)) {}

  std::shared_ptr<const detail::tokenizer::TokenizerCore> core_;
  bool may_truncate_ = true, may_pad_ = true;
};

}  // namespace ikebana

#include <ikebana/tokenizer/impl/tokenizer.ipp>
