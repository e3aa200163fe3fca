#pragma once
// Holds the parts of a Tokenizer, in the order in which a text passes them.
#include <ikebana/tokenizer/added_tokens.hpp>
#include <ikebana/tokenizer/decoders.hpp>
#include <ikebana/tokenizer/models.hpp>
#include <ikebana/tokenizer/normalizers.hpp>
#include <ikebana/tokenizer/options.hpp>
#include <ikebana/tokenizer/post_processors.hpp>
#include <ikebana/tokenizer/pretokenizers.hpp>
#include <ikebana/tokenizer/word_cache.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace ikebana::detail::tokenizer {

/// The memory that a thread encodes with.
struct EncodeWorkspace {
  Pieces pieces;
  WordCache cache;
  std::string spelled;
  std::vector<WordToken> tokens;
};

/// Keeps the workspaces that no thread uses.
class WorkspacePool {
 public:
  std::unique_ptr<EncodeWorkspace> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<EncodeWorkspace>();
    auto workspace = std::move(free_.back());
    free_.pop_back();
    return workspace;
  }
  void put_back(std::unique_ptr<EncodeWorkspace> workspace) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(workspace));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<EncodeWorkspace>> free_;
};

/// A tokenizer that does not change.
class TokenizerCore {
 public:
  /// The largest text in bytes. Normalizers may make it four times as long.
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;

  /// Reads the text of a tokenizer.json; `name` is for errors.
  TokenizerCore(std::string_view json, const std::string& name);

  /// Returns the tokens of a text before truncation, with offsets if asked.
  Encoding tokens_of(std::string_view text, bool wants_offsets) const;
  /// Truncates, and adds the post-processor's tokens.
  void finish(Encoding& encoding, bool adds_special, bool truncates) const;
  /// Makes encodings as long as the file says.
  void pad(std::vector<Encoding>& encodings, bool wants_offsets) const;

  /// Returns the text of a token for decoding; null if no token has the id. `is_special`: it may be
  /// skipped.
  std::optional<std::string_view> token(std::int64_t id, bool* is_special = nullptr) const;
  std::int32_t id_of(std::string_view token) const;

  const Model& model() const { return *model_; }
  const std::vector<AddedToken>& added_tokens() const { return added_; }
  const std::vector<DecoderStep>& decoder() const { return decoder_; }
  bool truncates() const { return truncation_.has_value(); }
  bool pads() const { return padding_.has_value(); }
  std::int64_t vocab_size() const { return vocab_size_; }
  std::int64_t largest_id() const { return largest_id_; }
  std::uint64_t hash() const { return hash_; }

 private:
  friend class TokenizerReader;
  void cut(std::string_view text, Pieces& pieces, bool wants_offsets) const;
  void append_ids(EncodeWorkspace& workspace, std::vector<std::int32_t>& ids) const;
  void append_with_offsets(EncodeWorkspace& workspace, std::string_view text, Encoding& out) const;
  std::size_t padded_length(std::size_t longest) const;

  std::vector<NormalizerStep> normalizer_;
  std::vector<PretokenizerStep> pretokenizer_;
  std::unique_ptr<const Model> model_;
  PostProcessor post_processor_;
  std::vector<DecoderStep> decoder_;
  std::optional<Truncation> truncation_;
  std::optional<Padding> padding_;
  std::vector<AddedToken> added_;  // by id
  std::unordered_map<std::int64_t, std::size_t> added_by_id_;
  std::unordered_map<std::string, std::int32_t> added_ids_;
  AddedTokenFinder raw_finder_, normalized_finder_;
  bool ends_with_byte_level_ = false, needs_spans_ = false;
  std::int64_t vocab_size_ = 0, largest_id_ = -1;
  std::uint64_t hash_ = 0;
  mutable WorkspacePool pool_;
};

}  // namespace ikebana::detail::tokenizer

#include <ikebana/tokenizer/impl/core.ipp>
#include <ikebana/tokenizer/impl/reader.ipp>
