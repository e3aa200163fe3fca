#pragma once
// Makes zip archives record by record, so that any field may be wrong. It is independent of the
// library's writer.
#include <cstdint>
#include <ikebana/state/files/crc32.hpp>
#include <optional>
#include <string>
#include <vector>

namespace test::zip_records {

template <class... Numbers>
std::string little_endian(Numbers... numbers) {
  std::string text;
  (text.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return text;
}
inline std::string u16(std::size_t n) { return little_endian(static_cast<std::uint16_t>(n)); }
inline std::string u32(std::size_t n) { return little_endian(static_cast<std::uint32_t>(n)); }
inline std::string u64(std::size_t n) { return little_endian(static_cast<std::uint64_t>(n)); }

/// The fields of a local header, or of an entry of the directory.
struct Fields {
  std::string signature, name, extra, comment;
  std::size_t flags = 0x800, method = 0, crc = 0, packed = 0, size = 0, disk = 0, offset = 0;
  std::optional<std::size_t> name_bytes, extra_bytes;  // if they differ from the texts

  std::string common() const {
    return u16(flags) + u16(method) + u32(0) + u32(crc) + u32(packed) + u32(size) +
           u16(name_bytes.value_or(name.size())) + u16(extra_bytes.value_or(extra.size()));
  }
  std::string local() const { return signature + u16(20) + common() + name + extra; }
  std::string listed() const {
    return signature + u16(20) + u16(20) + common() + u16(comment.size()) + u16(disk) + u16(0) +
           u32(0) + u32(offset) + name + extra + comment;
  }
};

struct Entry {
  Entry(const std::string& name, std::string bytes) : data(std::move(bytes)) {
    local.name = listed.name = name;
    local.signature = "PK\3\4", listed.signature = "PK\1\2";
    local.crc = listed.crc = ikebana::detail::crc32(0, data.data(), data.size());
    local.packed = local.size = listed.packed = listed.size = data.size();
  }
  std::string data;
  Fields local, listed;
  std::string behind;                 // a descriptor
  std::optional<std::size_t> offset;  // if it is not where it is
  bool is_listed = true, is_there = true;
};

struct Archive {
  explicit Archive(std::vector<Entry> all) : entries(std::move(all)) {}

  std::vector<Entry> entries;
  std::string before, between, after_directory, wide, comment;  // `wide`: records for zip64
  std::optional<std::size_t> count, count_here, bytes, offset, disk, comment_bytes;

  /// Returns the offset of the directory, after `text`.
  std::size_t directory = 0;
  std::string text() {
    std::string all = before, listed;
    std::size_t n = 0;
    for (Entry& e : entries) {
      e.listed.offset = e.offset.value_or(all.size());
      if (e.is_there) all += e.local.local() + e.data + e.behind;
      if (e.is_listed) listed += e.listed.listed(), ++n;
    }
    all += between;
    directory = all.size();
    all += listed + after_directory + wide;
    return all + "PK\5\6" + u16(disk.value_or(0)) + u16(0) +
           u16(count_here.value_or(count.value_or(n))) + u16(count.value_or(n)) +
           u32(bytes.value_or(listed.size())) + u32(offset.value_or(directory)) +
           u16(comment_bytes.value_or(comment.size())) + comment;
  }
};

/// Returns the records for zip64 of a directory that ends at `end`.
inline std::string wide_end(std::size_t end, std::size_t count, std::size_t bytes,
                            std::size_t offset) {
  return "PK\6\6" + u64(44) + u16(45) + u16(45) + u32(0) + u32(0) + u64(count) + u64(count) +
         u64(bytes) + u64(offset) + "PK\6\7" + u32(0) + u64(end) + u32(1);
}

}  // namespace test::zip_records
