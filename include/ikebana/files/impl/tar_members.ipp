#pragma once
#include <algorithm>
#include <charconv>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/files/number_text.hpp>
#include <ikebana/files/tar_members.hpp>

namespace ikebana::detail {

inline constexpr std::uint64_t tar_block = 512;
inline constexpr std::uint64_t max_tar_header = 1 << 20;  // bytes of names and pax records

IKEBANA_INLINE void TarHeaders::fail(const std::string& what) const {
  throw BadFile("tar: `" + path_.string() + "`, byte " + std::to_string(at_) + ": " + what);
}

IKEBANA_INLINE TarHeaders::Block TarHeaders::read_block() {
  Block block;
  if (at_ + tar_block > file_.size())
    fail("the file is cut off: its end mark is missing. Copy it again.");
  file_.read(at_, block.bytes, tar_block);
  return block;
}

IKEBANA_INLINE std::string TarHeaders::read_data(std::uint64_t size) {
  if (size > max_tar_header) fail("a name of " + std::to_string(size) + " bytes. Write it again.");
  if (at_ + size > file_.size()) fail("the file is cut off in a long name. Copy it again.");
  std::string data(size, '\0');
  file_.read(at_, data.data(), size);
  skip(size);
  return data;
}

/// Reads a number in octal digits, or for large ones in base 256.
IKEBANA_INLINE std::uint64_t TarHeaders::number(const char* field, std::size_t n) const {
  const auto first = static_cast<unsigned char>(field[0]);
  std::uint64_t value = 0;
  if (first == 0x80) {
    for (std::size_t i = 1; i < n; ++i) {
      if (value >> 54 != 0) fail("a size is too large. The file is damaged: copy it again.");
      value = value << 8 | static_cast<unsigned char>(field[i]);
    }
    return value;
  }
  std::size_t i = 0;
  while (i < n && field[i] == ' ') ++i;
  for (; i < n && field[i] >= '0' && field[i] <= '7'; ++i)
    value = value << 3 | static_cast<std::uint64_t>(field[i] - '0');
  for (; i < n; ++i)
    if (field[i] != ' ' && field[i] != '\0')
      fail("a number in a header is no octal number. The file is damaged: copy it again.");
  return value;
}

IKEBANA_INLINE void TarHeaders::check(const Block& block) const {
  std::uint64_t with_sign = 0, sum = 0;
  for (std::size_t i = 0; i < tar_block; ++i) {
    const char c = i >= 148 && i < 156 ? ' ' : block.bytes[i];
    sum += static_cast<unsigned char>(c);
    with_sign += static_cast<std::uint64_t>(static_cast<signed char>(c));
  }
  if (at_ == 0 && std::memcmp(block.bytes, "\x1f\x8b", 2) == 0)
    fail(
        "it is compressed by gzip, in which no sample can be found without reading all before it. "
        "Unpack it by `gunzip`, or write shards without compression: JPEG and PNG are compressed.");
  const char* const digits = block.bytes + 148;
  const bool is_number = std::all_of(
      digits, digits + 8, [](char c) { return c == ' ' || c == '\0' || (c >= '0' && c <= '7'); });
  const std::uint64_t given = is_number ? number(digits, 8) : 0;
  if (given != sum && given != with_sign)
    fail(at_ == 0 ? "it is no tar file. Name a file that tar or WebDataset wrote."
                  : "the checksum of a header is wrong. The file is damaged: copy it again.");
}

/// Files that are joined by `cat` have members behind the first end.
IKEBANA_INLINE void TarHeaders::check_end() {
  std::string bytes;
  while (at_ < file_.size()) {
    bytes.resize(std::min<std::uint64_t>(1 << 16, file_.size() - at_));
    file_.read(at_, bytes.data(), bytes.size());
    if (bytes.find_first_not_of('\0') != bytes.npos)
      fail(
          "bytes follow the end mark, which other programs would not read. Join tar files by `tar "
          "--concatenate`, or name each of them.");
    at_ += bytes.size();
  }
}

IKEBANA_INLINE std::string TarHeaders::name_of(const Block& block) const {
  auto text = [&](std::size_t at, std::size_t n) {
    return std::string(block.bytes + at, ::strnlen(block.bytes + at, n));
  };
  if (!long_name_.empty()) return long_name_;
  const std::string name = text(0, 100);
  const bool is_ustar = std::memcmp(block.bytes + 257, "ustar\0", 6) == 0;  // GNU's is "ustar  "
  const std::string prefix = is_ustar ? text(345, 155) : "";
  return prefix.empty() ? name : prefix + "/" + name;
}

IKEBANA_INLINE void TarHeaders::pax_record(const std::string& key, const std::string& value) {
  if (key.starts_with("GNU.sparse")) fail("a file in it is sparse. Write it without `--sparse`.");
  if (key == "path") long_name_ = value;
  if (key != "size") return;
  const auto read = std::from_chars(value.data(), value.data() + value.size(), long_size_);
  if (read.ec != std::errc() || read.ptr != value.data() + value.size() || long_size_ >> 62 != 0)
    fail("the pax record `size` is no size. The file is damaged: copy it again.");
  has_size_ = true;
}

/// Reads records `25 path=some/long/name\n`, of which the number counts all bytes.
IKEBANA_INLINE void TarHeaders::read_pax(const std::string& records, bool is_global) {
  for (std::size_t at = 0; at < records.size() && records[at] != '\0';) {
    std::size_t length = 0;
    const char* const end = records.data() + records.size();
    const auto read = std::from_chars(records.data() + at, end, length);
    const auto begin = static_cast<std::size_t>(read.ptr - records.data()) + 1;
    const auto equals = records.find('=', at);
    if (read.ec != std::errc() || read.ptr == end || *read.ptr != ' ' || length == 0 ||
        length > records.size() - at || equals == records.npos || equals >= at + length ||
        equals < begin || records[at + length - 1] != '\n')
      fail("a pax record is damaged. Copy the file again.");
    const std::string key = records.substr(begin, equals - begin);
    if (is_global && (key == "path" || key == "size"))
      fail("a global pax record gives all files the same " + key + ". Write the file again.");
    pax_record(key, records.substr(equals + 1, at + length - 1 - (equals + 1)));
    at += length;
  }
}

IKEBANA_INLINE void TarHeaders::refuse_type(char type, const std::string& name) const {
  const std::string file = quoted_value(name);
  if (type == '1' || type == '2')
    fail(file +
         " is a link, and has no bytes of its own. Write the files themselves, by `tar "
         "--dereference --hard-dereference`.");
  if (type == 'S') fail(file + " is a sparse file. Write it without `--sparse`.");
  fail(file + " is of type " + quoted_value(std::string_view(&type, 1)) +
       ", and no file with bytes. Leave it out.");
}

IKEBANA_INLINE void TarHeaders::skip(std::uint64_t size) {
  at_ += (size + tar_block - 1) / tar_block * tar_block;
}

IKEBANA_INLINE void TarHeaders::each(const std::function<void(TarMember)>& f) {
  while (true) {
    const Block block = read_block();
    const char* const end = block.bytes + tar_block;
    if (std::all_of(block.bytes, end, [](char c) { return c == '\0'; })) return check_end();
    check(block);
    const char type = block.bytes[156];
    const bool is_own = type != 'x' && type != 'g' && type != 'L' && type != 'K';
    const std::uint64_t size = has_size_ && is_own ? long_size_ : number(block.bytes + 124, 12);
    const std::string name = name_of(block);
    at_ += tar_block;
    if (type == 'x' || type == 'g') {
      read_pax(read_data(size), type == 'g');
      continue;
    }
    if (type == 'L' || type == 'K') {
      const std::string data = read_data(size);
      if (type == 'L') long_name_ = data.substr(0, data.find('\0'));
      continue;
    }
    if (type == '0' || type == '\0' || type == '7') {
      if (size > file_.size() || at_ > file_.size() - size)
        fail("the file is cut off in " + quoted_value(name) + ". Copy it again.");
      f({name, at_, size});
      skip(size);
    } else if (type != '5') {
      at_ -= tar_block;
      refuse_type(type, name);
    }
    long_name_.clear(), has_size_ = false;
  }
}

}  // namespace ikebana::detail
