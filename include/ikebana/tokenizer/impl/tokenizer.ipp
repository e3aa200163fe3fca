#pragma once
#include <atomic>
#include <exception>
#include <ikebana/posix/posix_files.hpp>
#include <ikebana/tokenizer/core.hpp>
#include <ikebana/tokenizer/tokenizer.hpp>
#include <ikebana/tokenizer/utf8.hpp>
#include <thread>

namespace ikebana {
namespace detail::tokenizer {

/// Reads a whole file.
inline std::string read_whole(const std::filesystem::path& path) {
  PosixFiles files;
  const auto file = files.open(path);
  std::string bytes(file->size(), '\0');
  file->read(0, bytes.data(), bytes.size());
  return bytes;
}

/// Returns the text, or, in `storage`, the text with replacements. Throws as `encode` does.
inline std::string_view checked_text(std::string_view text, InvalidUtf8 invalid_utf8,
                                     std::string& storage) {
  if (text.size() > TokenizerCore::most_bytes)
    throw BadValue("encode: the text has " + std::to_string(text.size()) +
                   " bytes, and at most 2^30 are encoded at once. Encode it in parts, or use "
                   "write_tokens, which reads files of any size.");
  const std::size_t bad = first_invalid_utf8(text);
  if (bad == text.npos) return text;
  if (invalid_utf8 == InvalidUtf8::Throw) {
    constexpr char digits[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(text[bad]);
    throw BadValue("encode: the text is not UTF-8: its byte " + std::to_string(bad) + " is 0x" +
                   digits[byte >> 4] + digits[byte & 15] +
                   ". Convert it, or set .invalid_utf8 = InvalidUtf8::Replace.");
  }
  return storage = with_replacements(text);
}

/// Calls `f(i)` for 0 <= i < n on several threads, and throws what the smallest i threw, after its
/// number is put before the text.
template <class F>
void for_each_text(std::size_t n, int num_threads, F&& f) {
  if (num_threads < 0)
    throw BadValue("encode_batch: num_threads is " + std::to_string(num_threads) +
                   ". Set the number of threads, or 0 for as many as the processor has.");
  std::atomic<std::size_t> next{0}, first_failed{n};
  std::vector<std::string> errors(n);
  auto work = [&] {
    for (std::size_t i; (i = next++) < n;) {
      try {
        f(i);
      } catch (const std::exception& error) {
        errors[i] = error.what();
        for (std::size_t now = first_failed;
             i < now && !first_failed.compare_exchange_weak(now, i);)
          continue;
      }
    }
  };
  std::size_t threads = num_threads > 0 ? static_cast<std::size_t>(num_threads)
                                        : std::max(1u, std::thread::hardware_concurrency());
  threads = std::min(threads, n);
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < threads; ++t) others.emplace_back(work);
    work();
  }
  if (first_failed < n)
    throw BadValue("encode_batch: text " + std::to_string(first_failed) + ": " +
                   errors[first_failed]);
}

}  // namespace detail::tokenizer

inline Tokenizer Tokenizer::from_file(const std::filesystem::path& path) {
  return Tokenizer(std::make_shared<const detail::tokenizer::TokenizerCore>(
      detail::tokenizer::read_whole(path), path.string()));
}
inline Tokenizer Tokenizer::from_str(std::string_view json) {
  return Tokenizer(
      std::make_shared<const detail::tokenizer::TokenizerCore>(json, "the given text"));
}

inline std::vector<std::int32_t> Tokenizer::encode(std::string_view text,
                                                   const EncodeOptions& options) const {
  std::string storage;
  text = detail::tokenizer::checked_text(text, options.invalid_utf8, storage);
  std::vector<Encoding> out{core_->tokens_of(text, false)};
  core_->finish(out[0], options.add_special_tokens, may_truncate_);
  if (may_pad_) core_->pad(out, false);
  return std::move(out[0].ids);
}

inline Encoding Tokenizer::encode_with_offsets(std::string_view text,
                                               const EncodeOptions& options) const {
  std::string storage;
  if (options.invalid_utf8 == InvalidUtf8::Replace &&
      detail::tokenizer::first_invalid_utf8(text) != text.npos)
    throw BadValue(
        "encode_with_offsets: the text is not UTF-8, and offsets of a text whose bytes are "
        "replaced would be those of another text. Replace them first.");
  text = detail::tokenizer::checked_text(text, options.invalid_utf8, storage);
  std::vector<Encoding> out{core_->tokens_of(text, true)};
  core_->finish(out[0], options.add_special_tokens, may_truncate_);
  if (may_pad_) core_->pad(out, true);
  return std::move(out[0]);
}

inline std::vector<std::vector<std::int32_t>> Tokenizer::encode_batch(
    const std::vector<std::string>& texts, const EncodeOptions& options) const {
  std::vector<Encoding> out(texts.size());
  detail::tokenizer::for_each_text(texts.size(), options.num_threads, [&](std::size_t i) {
    std::string storage;
    const auto text = detail::tokenizer::checked_text(texts[i], options.invalid_utf8, storage);
    out[i] = core_->tokens_of(text, false);
    core_->finish(out[i], options.add_special_tokens, may_truncate_);
  });
  if (may_pad_) core_->pad(out, false);
  std::vector<std::vector<std::int32_t>> ids;
  ids.reserve(out.size());
  for (Encoding& e : out) ids.push_back(std::move(e.ids));
  return ids;
}

inline std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const std::int32_t id = core_->id_of(token);
  return id < 0 ? std::nullopt : std::optional(id);
}
inline std::optional<std::string> Tokenizer::id_to_token(std::int32_t id) const {
  const auto token = core_->token(id);
  return token ? std::optional<std::string>(*token) : std::nullopt;
}
inline std::int64_t Tokenizer::vocab_size() const { return core_->vocab_size(); }
inline std::int64_t Tokenizer::largest_id() const { return core_->largest_id(); }
inline const std::vector<AddedToken>& Tokenizer::get_added_tokens() const {
  return core_->added_tokens();
}
inline bool Tokenizer::truncates() const { return may_truncate_ && core_->truncates(); }
inline bool Tokenizer::pads() const { return may_pad_ && core_->pads(); }
inline void Tokenizer::no_truncation() { may_truncate_ = false; }
inline void Tokenizer::no_padding() { may_pad_ = false; }
inline std::uint64_t Tokenizer::hash() const {
  return detail::tokenizer::mixed(core_->hash() + (truncates() ? 1u : 0u) + (pads() ? 2u : 0u));
}

}  // namespace ikebana
