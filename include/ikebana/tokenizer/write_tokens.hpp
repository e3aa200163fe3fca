#pragma once
// Turns text files into a file of tokens, as nanoGPT's prepare.py does.
#include <cstdint>
#include <filesystem>
#include <ikebana/tokenizer/tokenizer.hpp>
#include <string>
#include <vector>

namespace ikebana {

/// The integers of a file of tokens.
enum class TokenType {
  Automatic,  ///< UInt16 if all ids of the tokenizer fit, else UInt32
  UInt16,     ///< 2 bytes, nanoGPT's
  UInt32      ///< 4 bytes
};

/// The options of `write_tokens`.
struct WriteTokensOptions {
  std::string end_of_text = "<|endoftext|>";       ///< the token after each file; empty for none
  std::string begin_of_text{};                     ///< the token before each file; empty for none
  TokenType dtype = TokenType::Automatic;          ///< the integers of the file
  InvalidUtf8 invalid_utf8 = InvalidUtf8::Throw;   ///< what happens with bytes that are not UTF-8
  std::size_t chunk_bytes = std::size_t{1} << 20;  ///< how much text is in memory; at least 8192
};

/// The result of `write_tokens`.
struct WrittenTokens {
  std::uint64_t tokens = 0;             ///< the tokens in the file
  std::uint64_t documents = 0;          ///< the text files
  TokenType dtype = TokenType::UInt16;  ///< its integers
};

/// Writes the tokens of text files to `out`: nothing but integers, little end first, one file after
/// another, each followed by `end_of_text`. Post-processors add nothing. The tokens are the same as
/// of each file encoded whole: a file longer than `chunk_bytes` is cut where both sides have the
/// same tokens apart as together, which is checked for each cut. `out` is replaced atomically when
/// all is written.
///
/// Throws BadValue for a token that the tokenizer does not have, for UInt16 if an id does not fit,
/// for a tokenizer that truncates or pads, and for text that is not UTF-8 (the text names file and
/// byte); FileFailed if a file cannot be read or written.
///
/// Cost: the time of encoding; memory for some times `chunk_bytes`, whatever the size of the files.
WrittenTokens write_tokens(const Tokenizer& tokenizer,
                           const std::vector<std::filesystem::path>& paths,
                           const std::filesystem::path& out,
                           const WriteTokensOptions& options = {});

}  // namespace ikebana

#include <ikebana/tokenizer/impl/write_tokens.ipp>
