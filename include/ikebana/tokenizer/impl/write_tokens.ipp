#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <ikebana/error.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/tokenizer/utf8.hpp>
#include <ikebana/tokenizer/write_tokens.hpp>
#include <utility>

namespace ikebana {
namespace detail::tokenizer {

/// Writes ids as integers of two or four bytes.
class TokenOutput {
 public:
  TokenOutput(OutputFile& file, bool is_short) : file_(file), is_short_(is_short) {}
  void write(const std::vector<std::int32_t>& ids) {
    static_assert(std::endian::native == std::endian::little);
    for (const std::int32_t token : ids) {
      const auto id = static_cast<std::uint32_t>(token);
      buffer_.append(reinterpret_cast<const char*>(&id), is_short_ ? 2 : 4);
      ++tokens_;
      if (buffer_.size() >= (std::size_t{1} << 16)) flush();
    }
  }
  void flush() {
    if (!buffer_.empty()) file_.write(offset_, buffer_.data(), buffer_.size());
    offset_ += buffer_.size();
    buffer_.clear();
  }
  std::uint64_t tokens() const { return tokens_; }

 private:
  OutputFile& file_;
  bool is_short_;
  std::string buffer_;
  std::uint64_t offset_ = 0, tokens_ = 0;
};

/// Reads a file of text in parts, which are whole characters.
class TextInput {
 public:
  TextInput(const std::filesystem::path& path, InvalidUtf8 invalid_utf8)
      : path_(path),
        invalid_utf8_(invalid_utf8),
        file_(PosixFiles().open(path)),
        size_(file_->size()) {}
  bool at_end() const { return at_ == size_; }
  /// Appends about `n` bytes to `text`.
  void read(std::size_t n, std::string& text) {
    const auto wanted = static_cast<std::size_t>(std::min<std::uint64_t>(n, size_ - at_));
    const std::size_t before = raw_.size();
    raw_.resize(before + wanted);
    file_->read(at_, raw_.data() + before, wanted);
    at_ += wanted;
    std::string_view raw = raw_;
    std::size_t used = 0;
    while (used < raw.size()) {
      const std::size_t bad = std::min(first_invalid_utf8(raw.substr(used)), raw.size() - used);
      text += raw.substr(used, bad);
      used += bad;
      if (used == raw.size()) break;
      const Utf8Step step = utf8_step(raw.substr(used));
      if (step.is_cut_off && !at_end()) break;
      if (invalid_utf8_ == InvalidUtf8::Throw) not_utf8(at_ - (raw.size() - used), raw[used]);
      text += replacement_character;
      used += step.bytes;
    }
    raw_.erase(0, used);
  }

 private:
  [[noreturn]] void not_utf8(std::uint64_t byte, char value) const {
    constexpr char digits[] = "0123456789abcdef";
    const auto bits = static_cast<unsigned char>(value);
    throw BadValue("write_tokens: `" + path_.string() + "` is not UTF-8: its byte " +
                   std::to_string(byte) + " is 0x" + digits[bits >> 4] + digits[bits & 15] +
                   ". Convert the file, or set .invalid_utf8 = InvalidUtf8::Replace.");
  }
  std::filesystem::path path_;
  InvalidUtf8 invalid_utf8_;
  std::unique_ptr<InputFile> file_;
  std::uint64_t size_, at_ = 0;
  std::string raw_;  // the beginning of a character whose rest is not read yet
};

/// Encodes a text in parts that have the tokens of the whole.
class PartEncoder {
 public:
  PartEncoder(const Tokenizer& tokenizer, TokenOutput& out) : tokenizer_(tokenizer), out_(out) {}

  void encode(TextInput& input, std::size_t chunk_bytes) {
    std::string text;         // begins with a context, whose tokens are written already
    std::size_t context = 0;  // its bytes
    input.read(chunk_bytes, text);
    while (!input.at_end()) {
      const Ids all = ids(text);
      const Cut cut = find_cut(text, all);
      write(all, std::string_view(text).substr(0, context), cut.tokens);
      text.erase(0, cut.context);
      context = cut.at - cut.context;
      input.read(chunk_bytes, text);
    }
    const Ids all = ids(text);
    write(all, std::string_view(text).substr(0, context), all.size());
  }

 private:
  static constexpr std::size_t window = 1024;
  using Ids = std::vector<std::int32_t>;
  struct Cut {
    std::size_t context = 0;  // where the context of the next part begins
    std::size_t at = 0;       // where this part ends
    std::size_t tokens = 0;   // before that place
  };

  Ids ids(std::string_view text) const {
    return tokenizer_.encode(text, {.add_special_tokens = false});
  }
  static bool begins_with(const Ids& all, const Ids& part) {
    return part.size() <= all.size() && std::equal(part.begin(), part.end(), all.begin());
  }
  void write(const Ids& all, std::string_view context, std::size_t end) {
    const Ids before = context.empty() ? Ids() : ids(context);
    if (!begins_with(all, before) || before.size() > end) no_cut(context.size());
    out_.write({all.begin() + static_cast<std::ptrdiff_t>(before.size()),
                all.begin() + static_cast<std::ptrdiff_t>(end)});
  }
  [[noreturn]] static void no_cut(std::size_t bytes) {
    throw BadValue("the text has no place within " + std::to_string(bytes) +
                   " bytes at which it can be cut without changing its tokens. Set .chunk_bytes to "
                   "the size of the file.");
  }

  /// Finds a place near the end of a text whose tokens are `all`: before a line if possible, else
  /// before a space, else before any character.
  Cut find_cut(std::string_view text, const Ids& all) const {
    for (const char mark : {'\n', ' ', '\0'}) {
      int tries = 0;
      for (std::size_t at = text.size() - window; at > text.size() - 3 * window; --at) {
        if ((static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) continue;
        const bool is_space = text[at] == ' ' || text[at] == '\n';
        const bool fits =
            mark == '\n' ? text[at - 1] == mark && !is_space : mark == '\0' || text[at] == mark;
        if (!fits) continue;
        if (const Cut cut = checked(text, all, at); cut.tokens > 0) return cut;
        if (++tries == 50) break;
      }
    }
    no_cut(text.size());
  }

  /// Returns a cut at a place if the tokens after it, with only a context before them, are the same
  /// in the whole; else one without tokens.
  Cut checked(std::string_view text, const Ids& all, std::size_t at) const {
    std::size_t begin = at - window;
    while ((static_cast<unsigned char>(text[begin]) & 0xc0) == 0x80) --begin;
    const Ids near = ids(text.substr(begin)), left = ids(text.substr(begin, at - begin));
    if (!begins_with(near, left) || near.size() == left.size()) return {};
    const std::size_t after = near.size() - left.size();
    if (after >= all.size() ||
        !std::equal(near.end() - static_cast<std::ptrdiff_t>(after), near.end(),
                    all.end() - static_cast<std::ptrdiff_t>(after)))
      return {};
    return {begin, at, all.size() - after};
  }

  const Tokenizer& tokenizer_;
  TokenOutput& out_;
};

inline std::vector<std::int32_t> separator(const Tokenizer& tokenizer, const std::string& token,
                                           const char* option) {
  if (token.empty()) return {};
  if (const auto id = tokenizer.token_to_id(token)) return {*id};
  throw BadValue("write_tokens: the tokenizer has no token `" + token + "`. Set ." + option +
                 " to one that it has, or to \"\" for none.");
}

inline TokenType checked_type(const Tokenizer& tokenizer,
                              const std::vector<std::filesystem::path>& paths,
                              const std::filesystem::path& out, const WriteTokensOptions& options) {
  if (paths.empty()) throw BadValue("write_tokens: there are no paths. Give the text files.");
  std::error_code code;
  for (const auto& path : paths)
    if (std::filesystem::equivalent(path, out, code))
      throw BadValue("write_tokens: `" + path.string() +
                     "` would be replaced by its tokens. Give another path for them.");
  if (options.chunk_bytes < 8192 || options.chunk_bytes > (std::size_t{1} << 29))
    throw BadValue("write_tokens: chunk_bytes is " + std::to_string(options.chunk_bytes) +
                   ". Set it from 8192 to 2^29.");
  if (tokenizer.truncates() || tokenizer.pads())
    throw BadValue(std::string("write_tokens: the tokenizer ") +
                   (tokenizer.truncates()
                        ? "truncates texts, so that most of a file would be lost. "
                          "Call no_truncation() on it."
                        : "pads texts. Call no_padding() on it."));
  const bool fits = tokenizer.largest_id() <= 65535;
  if (options.dtype == TokenType::UInt16 && !fits)
    throw BadValue("write_tokens: the tokenizer has ids up to " +
                   std::to_string(tokenizer.largest_id()) +
                   ", and uint16 has numbers up to 65535. Set .dtype = TokenType::UInt32.");
  if (options.dtype != TokenType::Automatic) return options.dtype;
  return fits ? TokenType::UInt16 : TokenType::UInt32;
}

}  // namespace detail::tokenizer

inline WrittenTokens write_tokens(const Tokenizer& tokenizer,
                                  const std::vector<std::filesystem::path>& paths,
                                  const std::filesystem::path& out,
                                  const WriteTokensOptions& options) {
  WrittenTokens written{.dtype = detail::tokenizer::checked_type(tokenizer, paths, out, options)};
  const auto begin =
      detail::tokenizer::separator(tokenizer, options.begin_of_text, "begin_of_text");
  const auto end = detail::tokenizer::separator(tokenizer, options.end_of_text, "end_of_text");
  PosixFiles files;
  auto write = [&](OutputFile& file) {
    detail::tokenizer::TokenOutput output(file, written.dtype == TokenType::UInt16);
    for (const auto& path : paths) {
      detail::tokenizer::TextInput input(path, options.invalid_utf8);
      output.write(begin);
      try {
        detail::tokenizer::PartEncoder(tokenizer, output).encode(input, options.chunk_bytes);
      } catch (const BadValue& error) {
        const std::string what = error.what();
        if (what.starts_with("write_tokens: ")) throw;
        throw BadValue("write_tokens: `" + path.string() + "`: " + what);
      }
      output.write(end);
      ++written.documents;
    }
    output.flush();
    written.tokens = output.tokens();
  };
  detail::write_durably(files, out, 0, write, [](const auto&) { return true; });
  return written;
}

}  // namespace ikebana
