#pragma once
#include <algorithm>
#include <array>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/widen.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/npy.hpp>
#include <ikebana/files/token_files.hpp>

namespace ikebana::detail {

[[noreturn]] inline void throw_bad_tokens(const std::filesystem::path& path,
                                          const std::string& why) {
  throw BadFile("token file: `" + path.string() + "` " + why);
}

inline bool is_token_dtype(at::ScalarType dtype) {
  return dtype == at::kUInt16 || dtype == at::kUInt32 || dtype == at::kInt || dtype == at::kLong;
}

/// Calls `f` with a value of the integer type.
template <class F>
decltype(auto) with_token_type(at::ScalarType dtype, F&& f) {
  switch (dtype) {
    case at::kUInt16:
      return f(std::uint16_t());
    case at::kUInt32:
      return f(std::uint32_t());
    case at::kInt:
      return f(std::int32_t());
    default:
      return f(std::int64_t());
  }
}

/// Throws BadFile if the first tokens look like integers of another size than the dtype's.
inline void check_first(const FileMap& map, at::ScalarType dtype) {
  constexpr std::uint64_t enough = 64, most = 4096;
  const std::uint64_t count = std::min(map.size() / c10::elementSize(dtype), most) / 2 * 2;
  if (count < enough) return;
  if (dtype == at::kUInt16) {
    const auto* tokens = reinterpret_cast<const std::uint16_t*>(map.read(0, count * 2));
    bool high_are_zero = true, all_are_zero = true;
    for (std::size_t i = 0; i < count; ++i) {
      all_are_zero = all_are_zero && tokens[i] == 0;
      high_are_zero = high_are_zero && (i % 2 == 0 || tokens[i] == 0);
    }
    if (high_are_zero && !all_are_zero)
      throw_bad_tokens(map.path(),
                       "has a zero as every second token of 16 bits, so it holds integers of more "
                       "bits. Set dtype to kUInt32 or kLong.");
  } else if (dtype == at::kUInt32 || dtype == at::kInt) {
    const auto* tokens = reinterpret_cast<const std::uint32_t*>(map.read(0, count * 4));
    constexpr std::uint32_t large = 1 << 24;
    const auto* found =
        std::find_if(tokens, tokens + count, [](std::uint32_t token) { return token >= large; });
    if (found != tokens + count)
      throw_bad_tokens(map.path(), "has " + std::to_string(*found) + " as token " +
                                       std::to_string(found - tokens) +
                                       " of 32 bits, which no vocabulary has, so it holds integers "
                                       "of 16 or 64 bits. Set dtype to kUInt16 or kLong.");
  }
}

IKEBANA_INLINE TokenReader::TokenReader(std::vector<std::filesystem::path> paths,
                                        const TokenOptions& options)
    : options_(options) {
  if (options_.stride == 0) options_.stride = options_.length;
  if (options_.length < 1 || options_.stride < 1 || options_.vocab_size < 0)
    throw BadValue("token files: length is " + std::to_string(options.length) + ", stride " +
                   std::to_string(options.stride) + ", vocab_size " +
                   std::to_string(options.vocab_size) +
                   "; length must be 1 or more, and the others not negative.");
  if (!is_token_dtype(options_.dtype))
    throw BadValue("token files: dtype is " + std::string(c10::toString(options_.dtype)) +
                   "; it must be kUInt16, kUInt32, kInt or kLong.");
  if (paths.empty()) throw BadValue("token files: the list of paths is empty. Name a file.");
  for (std::filesystem::path& path : paths) {
    files_.push_back(look_at(FileMap(std::move(path)), options_.dtype));
    const auto count = static_cast<std::int64_t>(files_.back().count);
    const std::int64_t windows =
        count > options_.length ? (count - 1 - options_.length) / options_.stride + 1 : 0;
    tokens_ += count;
    first_window_.push_back(first_window_.back() + windows);
  }
  if (windows() == 0)
    throw_bad_tokens(files_[0].map.path(),
                     (files_.size() > 1 ? "and the files after it hold " : "holds ") +
                         std::to_string(tokens_) + " tokens, and no window of " +
                         std::to_string(options_.length) +
                         " and one more fits into a file. Choose a smaller length.");
}

IKEBANA_INLINE auto TokenReader::look_at(FileMap map, at::ScalarType dtype) -> File {
  if (!is_npy(map)) return from_header(std::move(map), dtype);
  const NpyHeader header = read_npy_header(map);
  if (header.shape.size() != 1 || !is_token_dtype(header.dtype))
    throw_bad_tokens(map.path(), "is an array of " + std::string(c10::toString(header.dtype)) +
                                     c10::str(at::IntArrayRef(header.shape)) +
                                     ". Save one dimension of uint16, uint32, int32 or int64.");
  return {std::move(map), header.data, static_cast<std::uint64_t>(header.shape[0]), header.dtype};
}

/// Reads a header of llm.c: 256 integers, of which the first three are a magic number, a version
/// and the number of tokens. A file without one begins with its first token.
IKEBANA_INLINE auto TokenReader::from_header(FileMap map, at::ScalarType dtype) -> File {
  constexpr std::uint32_t gpt2 = 20240520, llama3 = 20240801;
  constexpr std::uint64_t header_bytes = 1024;
  std::array<std::uint32_t, 3> begin{};
  if (map.size() >= header_bytes)
    std::memcpy(begin.data(), map.read(0, sizeof begin), sizeof begin);
  if (begin[0] != gpt2 && begin[0] != llama3) {
    const std::uint64_t bytes = c10::elementSize(dtype), size = map.size();
    if (size % bytes != 0)
      throw_bad_tokens(map.path(),
                       "has " + std::to_string(size) + " bytes, which are no whole number of " +
                           c10::toString(dtype) + ". Correct dtype, or write the file again.");
    check_first(map, dtype);
    return {std::move(map), 0, size / bytes, dtype};
  }
  const std::uint32_t version = begin[0] == gpt2 ? 1 : 7;
  if (begin[1] != version)
    throw_bad_tokens(map.path(), "has llm.c's header of version " + std::to_string(begin[1]) +
                                     "; " + std::to_string(version) +
                                     " is known. Write it with that version.");
  const at::ScalarType integer = begin[0] == gpt2 ? at::kUInt16 : at::kUInt32;
  if (header_bytes + begin[2] * c10::elementSize(integer) != map.size())
    throw_bad_tokens(map.path(), "has " + std::to_string(map.size()) +
                                     " bytes, and its header says that it holds " +
                                     std::to_string(begin[2]) +
                                     " tokens. It is cut off: write it again.");
  return {std::move(map), header_bytes, begin[2], integer};
}

IKEBANA_INLINE void TokenReader::read(std::int64_t index, std::int64_t* input, std::int64_t* target,
                                      const FileMap*& checked) const {
  if (index < 0 || index >= windows())
    throw BadValue("token files: there is no window " + std::to_string(index) + "; there are " +
                   std::to_string(windows()) + ". Count from 0.");
  const auto after = std::upper_bound(first_window_.begin(), first_window_.end(), index);
  const auto number = static_cast<std::size_t>(after - first_window_.begin()) - 1;
  const File& file = files_[number];
  const auto first = static_cast<std::uint64_t>((index - first_window_[number]) * options_.stride);
  const auto length = static_cast<std::size_t>(options_.length);
  const std::size_t bytes = c10::elementSize(file.dtype);
  if (std::exchange(checked, &file.map) != &file.map) file.map.check();
  const std::byte* at = file.map.bytes(file.data + first * bytes, (length + 1) * bytes);
  with_token_type(file.dtype, [&](auto integer) {
    const auto* tokens = reinterpret_cast<const decltype(integer)*>(at);
    widen(tokens, input, length);
    widen(tokens + 1, target, length);
  });
  if (options_.vocab_size == 0) return;
  check_tokens(file, first, input);
  check_tokens(file, first + 1, target);
}

IKEBANA_INLINE void TokenReader::check_tokens(const File& file, std::uint64_t first,
                                              const std::int64_t* tokens) const {
  // Compared without a sign, so that negative ones are too large.
  const auto limit = static_cast<std::uint64_t>(options_.vocab_size);
  std::uint64_t largest = 0;
  for (std::int64_t i = 0; i < options_.length; ++i)
    largest = std::max(largest, static_cast<std::uint64_t>(tokens[i]));
  if (largest < limit) return;
  std::uint64_t i = 0;
  while (static_cast<std::uint64_t>(tokens[i]) < limit) ++i;
  throw_bad_tokens(file.map.path(),
                   "has " + std::to_string(tokens[i]) + " as token " + std::to_string(first + i) +
                       "; vocab_size is " + std::to_string(options_.vocab_size) +
                       ". Use the model of the tokenizer that wrote the file, or correct dtype.");
}

IKEBANA_INLINE TokenBatch TokenReader::read(const at::Tensor& indices) const {
  const std::int64_t* index = index_data("token files", indices);
  const std::int64_t rows = indices.numel(), length = options_.length;
  TokenBatch batch{at::empty({rows, length}, at::kLong), at::empty({rows, length}, at::kLong)};
  auto* input = batch.input.mutable_data_ptr<std::int64_t>();
  auto* target = batch.target.mutable_data_ptr<std::int64_t>();
  const FileMap* checked = nullptr;
  for (std::int64_t row = 0; row < rows; ++row)
    read(index[row], input + row * length, target + row * length, checked);
  return batch;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE TokenFiles::TokenFiles(const ShardPaths& paths, const TokenOptions& options)
    : reader_(std::make_shared<const detail::TokenReader>(paths.list(), options)) {}

IKEBANA_INLINE TokenBatch TokenFiles::get_batch(const at::Tensor& indices) const {
  return reader_->read(indices);
}

IKEBANA_INLINE PackedTokenFiles::PackedTokenFiles(const ShardPaths& paths, std::int64_t end_of_text,
                                                  const TokenOptions& options)
    : reader_(std::make_shared<const detail::TokenReader>(paths.list(), options)),
      end_of_text_(end_of_text) {}

IKEBANA_INLINE PackedBatch PackedTokenFiles::get_batch(const at::Tensor& indices) const {
  constexpr std::int64_t ignored = -100;
  TokenBatch windows = reader_->read(indices);
  const at::Tensor input = windows.input.flatten(), target = windows.target.flatten();
  const auto* token = static_cast<const std::int64_t*>(input.const_data_ptr());
  auto* next = target.mutable_data_ptr<std::int64_t>();
  const std::int64_t length = reader_->options().length;
  std::vector<std::int64_t> ends{0};
  for (std::int64_t i = 0; i < input.numel(); ++i) {
    if (token[i] == end_of_text_) next[i] = ignored;  // the next document's first token
    if (token[i] == end_of_text_ || (i + 1) % length == 0) ends.push_back(i + 1);
  }
  const at::Tensor offsets = at::tensor(ends, at::kLong);
  return {Ragged(input, offsets), Ragged(target, offsets)};
}

}  // namespace ikebana
