#pragma once
// Defines datasets of token files: windows of tokens, and windows whose documents are kept apart.
#include <ikebana/batch/ragged.hpp>
#include <ikebana/files/shard_paths.hpp>
#include <ikebana/posix/file_map.hpp>
#include <optional>
#include <string>
#include <vector>

namespace ikebana {

/// Options of token files.
struct TokenOptions {
  std::int64_t length = 1024;  ///< tokens of a window's input, and of its target
  /// Tokens from the begin of a window to the begin of the next one; 0: `length`. With 1 and
  /// `.shuffle` windows begin anywhere, as nanoGPT draws them, but none twice in an epoch.
  std::int64_t stride = 0;
  /// The integers of a file without a header: kUInt16, as nanoGPT writes, kUInt32, kInt or kLong.
  /// Files of llm.c and numpy say it themselves.
  at::ScalarType dtype = at::kUInt16;
  /// Tokens must be below it; 0: they are not checked. Give the number of rows of the model's
  /// embedding.
  std::int64_t vocab_size = 0;
};

/// A batch of windows: `target` is `input` one token later.
struct TokenBatch {
  at::Tensor input;   ///< (rows, length) Long
  at::Tensor target;  ///< (rows, length) Long
};

/// A batch of documents of different lengths, joined in one row without padding. Its rows are the
/// documents. A model takes it as `forward(const Ragged& tokens)`, and computes each document apart
/// by `modules::attention(q, k, v, {.is_causal = true, .offsets = tokens.offsets()})`.
struct PackedBatch {
  Ragged input;   ///< (tokens) Long
  Ragged target;  ///< (tokens) Long: the document's next token; -100 at its last one
};

namespace detail {

/// The tokens of several files, each a row of integers behind a header.
class TokenReader {
 public:
  TokenReader(std::vector<std::filesystem::path> paths, const TokenOptions& options);

  const TokenOptions& options() const { return options_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t windows() const { return first_window_.back(); }
  /// Reads windows, each of `length` + 1 tokens, into the rows of a batch.
  TokenBatch read(const at::Tensor& indices) const;

 private:
  struct File {
    FileMap map;
    std::uint64_t data;   // the position of the first token, in bytes
    std::uint64_t count;  // tokens
    at::ScalarType dtype;
  };

  static File look_at(FileMap map, at::ScalarType dtype);
  static File from_header(FileMap map, at::ScalarType dtype);
  /// Reads window `index` into two rows. Checks its file unless that is the one checked last.
  void read(std::int64_t index, std::int64_t* input, std::int64_t* target,
            const FileMap*& checked) const;
  void check_tokens(const File& file, std::uint64_t first, const std::int64_t* tokens) const;

  TokenOptions options_;
  std::vector<File> files_;
  std::vector<std::int64_t> first_window_{0};  // by file, and the number of all at the end
  std::int64_t tokens_ = 0;
};

}  // namespace detail

/// Windows of tokens in files, as a dataset: nanoGPT's `train.bin`, llm.c's shards with their
/// headers, and numpy's `.npy` of one dimension. A window lies in one file; tokens after a file's
/// last whole window are in none. Reads what a batch needs when it is asked for, so a file of any
/// size costs no memory and starts at once. Copies share the files. May be used by several threads
/// at once.
///
///     TokenFiles train{"data/train_*.bin", {.length = 1024}};
///     DataLoader loader{train, {.batch_size = 12, .shuffle = true, .num_workers = 1}};
///
/// Cost: about as much as memcpy of the tensors. Errors: BadValue for
/// options out of range and for a pattern without a match, BadFile for a damaged file, for a file
/// that was changed since, for integers of another size than `dtype`, and for a token that is not
/// below `vocab_size`.
class TokenFiles {
 public:
  /// Takes the files of a pattern, or a list of files in its order.
  explicit TokenFiles(const ShardPaths& paths, const TokenOptions& options = {});

  /// Returns the number of windows.
  std::int64_t size() const { return reader_->windows(); }
  /// Returns the number of tokens in all files.
  std::int64_t tokens() const { return reader_->tokens(); }
  /// Returns the windows at these indices (Long, one dimension), in their order.
  TokenBatch get_batch(const at::Tensor& indices) const;

 private:
  std::shared_ptr<const detail::TokenReader> reader_;
};

/// Windows of tokens whose documents are computed apart: as TokenFiles, but a batch is the
/// documents, and parts of documents, of its windows. All tokens of a batch are trained on, and
/// none attends to another document or is a target of one. Positions restart at the begin of each
/// part (`Ragged::positions`).
///
///     PackedTokenFiles train{"data/train_*.bin", 50256, {.length = 1024}};
///
/// Errors: as TokenFiles.
class PackedTokenFiles {
 public:
  /// Takes the files of a pattern, or a list of files in its order, and the token that ends a
  /// document (Hugging Face's eos_token_id).
  PackedTokenFiles(const ShardPaths& paths, std::int64_t end_of_text,
                   const TokenOptions& options = {});

  /// Returns the number of windows.
  std::int64_t size() const { return reader_->windows(); }
  /// Returns the number of tokens in all files.
  std::int64_t tokens() const { return reader_->tokens(); }
  /// Returns the documents of the windows at these indices (Long, one dimension), in their order.
  PackedBatch get_batch(const at::Tensor& indices) const;

 private:
  std::shared_ptr<const detail::TokenReader> reader_;
  std::int64_t end_of_text_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/files/impl/token_files.ipp>
#endif
