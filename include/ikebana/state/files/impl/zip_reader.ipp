#pragma once
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/crc32.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/files/zip_reader.hpp>

namespace ikebana::detail {

inline constexpr std::uint64_t max_zip_directory_bytes = 100'000'000;

IKEBANA_INLINE ZipReader::ZipReader(Files& files, const Files::Path& path)
    : path_(path), file_(files.open(path)) {
  const Directory directory = find_directory();
  check_directory(directory);
  read_directory(directory);
}

IKEBANA_INLINE const ZipEntry& ZipReader::entry(std::string_view name) const {
  const auto found = index_.find(name);
  if (found == index_.end())
    throw BadFile("load: `" + path_.string() + "` has no entry " + quoted(name) +
                  ". Name a file of the format that is read here, or write it again.");
  return entries_[found->second];
}

IKEBANA_INLINE void ZipReader::read(std::string_view name, void* to, std::uint64_t bytes) {
  const ZipEntry& e = entry(name);
  if (e.size != bytes)
    damaged(quoted(name) + " has " + std::to_string(e.size) + " bytes, and " +
                std::to_string(bytes) + " are needed",
            e.begin);
  const auto begin = static_cast<unsigned char*>(to);
  read_chunks(e, [begin](std::uint64_t at) { return begin + at; });
}

IKEBANA_INLINE std::string ZipReader::text(std::string_view name, std::uint64_t max_bytes) {
  const ZipEntry& e = entry(name);
  if (e.size > max_bytes)
    damaged(quoted(name) + " has " + std::to_string(e.size) +
                " bytes, more than a reader's limit of " + std::to_string(max_bytes),
            e.begin);
  std::string text(e.size, '\0');
  read(name, text.data(), e.size);
  return text;
}

IKEBANA_INLINE void ZipReader::check_all() {
  std::vector<unsigned char> chunk(std::min(zip_chunk_bytes, file_->size()));
  for (const ZipEntry& e : entries_) read_chunks(e, [&](std::uint64_t) { return chunk.data(); });
}

/// Reads an entry chunk by chunk: the bytes from `at` on go to `place(at)`.
template <class Place>
void ZipReader::read_chunks(const ZipEntry& e, Place&& place) {
  std::uint32_t crc = 0;
  for (std::uint64_t at = 0; at < e.size; at += zip_chunk_bytes) {
    const std::size_t n = std::min(zip_chunk_bytes, e.size - at);
    unsigned char* to = place(at);
    file_->read(e.begin + at, to, n);
    crc = crc32(crc, to, n);
  }
  if (crc != e.crc)
    damaged(quoted(e.name) +
                ": the checksum of its bytes does not match: they were changed since "
                "they were written",
            e.begin);
}

IKEBANA_INLINE ZipReader::Directory ZipReader::find_directory() {
  const std::uint64_t size = file_->size();
  const std::size_t n = std::min<std::uint64_t>(size, zip_end_bytes + 0xffff);  // with a comment
  const std::string tail = bytes_at(size - n, n);
  std::size_t at = n < zip_end_bytes ? tail.npos : tail.rfind("PK\5\6", n - zip_end_bytes);
  for (; at != tail.npos; at = at > 0 ? tail.rfind("PK\5\6", at - 1) : tail.npos) {
    ZipFields fields(std::string_view(tail).substr(at + 4));
    Directory d;
    const std::uint16_t disk = fields.u16(), first_disk = fields.u16(), here = fields.u16();
    d.entries = fields.u16(), d.bytes = fields.u32(), d.offset = fields.u32();
    d.end = size - n + at;
    const std::size_t comment = fields.u16();
    if (comment != fields.left()) continue;  // stands in a comment, or in an entry
    const bool is_wide =
        d.end >= zip64_locator_bytes && bytes_at(d.end - zip64_locator_bytes, 4) == "PK\6\7";
    for (const std::uint16_t number : {disk, first_disk})
      if (number != 0 && !(is_wide && number == 0xffff))
        refuse("it is one of several disks", d.end, "Join them to one archive.");
    if (here != d.entries) damaged("the end record: two numbers of entries differ", d.end);
    return is_wide ? wide_directory(d, d.end - zip64_locator_bytes) : d;
  }
  const bool begins = size >= 4 && bytes_at(0, 4) == "PK\3\4";
  damaged(begins ? "the end record is missing: the file was cut off" : "the end record is missing",
          size);
}

/// Reads the record for large archives. Its locator is at `end`.
IKEBANA_INLINE ZipReader::Directory ZipReader::wide_directory(const Directory& narrow,
                                                              std::uint64_t end) {
  const std::string locator = bytes_at(end, zip64_locator_bytes);
  ZipFields fields(std::string_view(locator).substr(4));
  const std::uint32_t disk = fields.u32();
  Directory wide;
  wide.end = fields.u64();
  if (disk != 0 || fields.u32() > 1)
    refuse("it is one of several disks", end, "Join them to one archive.");
  if (wide.end > end || end - wide.end < zip64_end_bytes)
    damaged("the zip64 locator: its end record is not in the file", end);
  const std::string record = bytes_at(wide.end, zip64_end_bytes);
  fields = ZipFields(record);
  if (fields.u32() != zip64_end) damaged("the zip64 end record: its signature is wrong", wide.end);
  if (fields.u64() != end - wide.end - 12)
    damaged("the zip64 end record: its length is wrong", wide.end);
  fields.text(4);  // versions
  if (fields.u64() != 0)
    refuse("it is one of several disks", wide.end, "Join them to one archive.");
  const std::uint64_t here = fields.u64();
  wide.entries = fields.u64(), wide.bytes = fields.u64(), wide.offset = fields.u64();
  const auto agrees = [](std::uint64_t small, std::uint64_t large, std::uint64_t max) {
    return small == large || small == max;
  };
  if (here != wide.entries || !agrees(narrow.entries, wide.entries, 0xffff) ||
      !agrees(narrow.bytes, wide.bytes, zip_wide) || !agrees(narrow.offset, wide.offset, zip_wide))
    damaged("the zip64 end record differs from the end record", wide.end);
  return wide;
}

IKEBANA_INLINE void ZipReader::check_directory(const Directory& d) const {
  if (d.offset > d.end || d.end - d.offset != d.bytes)
    damaged("the end record: the directory of " + std::to_string(d.bytes) + " bytes at byte " +
                std::to_string(d.offset) + " does not end where this record begins",
            d.end);
  if (d.entries > d.bytes / zip_central_bytes)
    damaged("the end record: " + std::to_string(d.entries) + " entries do not fit a directory of " +
                std::to_string(d.bytes) + " bytes",
            d.end);
  if (d.bytes > max_zip_directory_bytes)
    damaged("the directory has " + std::to_string(d.bytes) + " bytes, more than a reader's limit",
            d.offset);
  if (d.entries == 0) damaged("the archive has no entries", d.end);
}

IKEBANA_INLINE void ZipReader::read_directory(const Directory& d) {
  const std::string bytes = bytes_at(d.offset, d.bytes);
  ZipFields fields(bytes);
  std::vector<Listed> items;
  items.reserve(d.entries);
  std::uint64_t claimed = 0;  // the bytes of the entries so far, so that no byte is read twice
  for (std::uint64_t i = 0; i < d.entries; ++i) {
    items.push_back(listed(fields, d.end - fields.left()));
    Listed& item = items.back();
    check_listed(item);
    check_local(item, d.offset);
    claimed += item.end - item.header.offset;
    if (claimed > d.offset) damaged(quoted(item.name) + " overlaps another entry", item.at);
  }
  if (fields.left() > 0)
    damaged("the directory: something follows its last entry", d.end - fields.left());
  take(items);
  check_layout(std::move(items), d.offset);
}

IKEBANA_INLINE ZipReader::Listed ZipReader::listed(ZipFields& fields, std::uint64_t at) const {
  Listed item;
  item.at = at;
  if (fields.left() < zip_central_bytes || fields.u32() != zip_central)
    damaged("the directory: an entry is missing or has a wrong signature", at);
  item.header = zip_header(fields, true);
  ZipHeader& h = item.header;
  if (std::size_t{h.name_bytes} + h.extra_bytes + h.comment_bytes > fields.left())
    damaged("the directory: an entry is longer than the directory", at);
  item.name = fields.text(h.name_bytes);
  const std::string_view extra = fields.text(h.extra_bytes);
  fields.text(h.comment_bytes);
  widen(h, extra, item.name, at);
  return item;
}

IKEBANA_INLINE void ZipReader::check_listed(const Listed& item) const {
  const ZipHeader& h = item.header;
  const std::string name = quoted(item.name), problem = problem_of_zip_name(item.name);
  if (!problem.empty()) damaged("the name " + name + " " + problem, item.at);
  if ((h.flags & zip_encrypted) != 0)
    refuse(name + " is encrypted", item.at, "Write the archive without a password.");
  if (h.method != 0)
    refuse(name + " is compressed, by method " + std::to_string(h.method), item.at,
           "Write the archive with stored entries, as torch.export.save does (zip -0).");
  if ((h.flags & ~(zip_described | zip_utf8)) != 0)
    damaged(name + ": its flags " + std::to_string(h.flags) + " are not known", item.at);
  if (h.disk != 0) refuse(name + " is on another disk", item.at, "Join them to one archive.");
  if (item.name.ends_with('/') && h.size > 0)
    damaged(name + " is a folder, and has bytes", item.at);
  if (h.packed != h.size)
    damaged(name + " is stored, and its two sizes differ: " + std::to_string(h.packed) + " and " +
                std::to_string(h.size),
            item.at);
}

IKEBANA_INLINE bool ZipReader::widen(ZipHeader& h, std::string_view extra, const std::string& name,
                                     std::uint64_t at) const {
  bool is_wide = false;
  for (ZipFields fields(extra); fields.left() > 0;) {
    const bool has_size = fields.left() >= 4;
    const std::uint16_t kind = fields.u16(), bytes = fields.u16();
    if (!has_size || fields.left() < bytes)
      damaged(quoted(name) + ": its extra field is cut off", at);
    ZipFields numbers(fields.text(bytes));
    if (kind != zip64_extra) continue;
    if (is_wide) damaged(quoted(name) + ": its zip64 field appears twice", at);
    is_wide = true;
    for (std::uint64_t* number : {&h.size, &h.packed, &h.offset}) {
      if (*number != zip_wide) continue;
      if (numbers.left() < 8) damaged(quoted(name) + ": its zip64 field is too short", at);
      *number = numbers.u64();
    }
  }
  return is_wide;
}

IKEBANA_INLINE void ZipReader::check_local(Listed& item, std::uint64_t limit) {
  const ZipHeader& listed = item.header;
  const std::string name = quoted(item.name);
  const std::uint64_t at = listed.offset;
  if (at > limit || limit - at < zip_local_bytes + item.name.size())
    damaged(name + ": its header is not in the file, at byte " + std::to_string(at), item.at);
  const std::string fixed = bytes_at(at, zip_local_bytes);
  ZipFields fields(fixed);
  if (fields.u32() != zip_local) damaged(name + ": the signature of its header is wrong", at);
  ZipHeader h = zip_header(fields, false);
  const std::uint64_t texts = at + zip_local_bytes;
  const std::uint64_t begin = texts + h.name_bytes + h.extra_bytes;
  if (begin > limit || listed.size > limit - begin)
    damaged(name + ": its " + std::to_string(listed.size) + " bytes from byte " +
                std::to_string(begin) + " are not all before the directory",
            at);
  const std::string name_and_extra = bytes_at(texts, begin - texts);
  const std::string_view extra = std::string_view(name_and_extra).substr(h.name_bytes);
  if (name_and_extra.substr(0, h.name_bytes) != item.name)
    damaged(name + ": its header has another name", texts);
  const bool is_wide = widen(h, extra, item.name, texts);
  if (h.flags != listed.flags || h.method != listed.method)
    damaged(name + ": its header has other flags, or another method, than the directory", at);
  // The descriptor may have them instead.
  const bool is_absent =
      (h.flags & zip_described) != 0 && h.crc == 0 && h.packed == 0 && h.size == 0;
  if (!is_absent && (h.crc != listed.crc || h.packed != listed.packed || h.size != listed.size))
    damaged(name + ": its header has another size, or another checksum, than the directory", at);
  item.begin = begin, item.end = begin + listed.size;
  if ((h.flags & zip_described) != 0) {
    check_descriptor(item, is_wide, limit);
    item.end += is_wide ? 24 : 16;
  }
}

/// Checks the record behind an entry's bytes.
IKEBANA_INLINE void ZipReader::check_descriptor(const Listed& item, bool is_wide,
                                                std::uint64_t limit) {
  const std::string name = quoted(item.name);
  const std::size_t n = is_wide ? 24 : 16;
  if (limit - item.end < n) damaged(name + ": the descriptor behind it is missing", item.end);
  const std::string bytes = bytes_at(item.end, n);
  ZipFields fields(bytes);
  const std::uint32_t signature = fields.u32(), crc = fields.u32();
  const std::uint64_t packed = is_wide ? fields.u64() : fields.u32();
  const std::uint64_t size = is_wide ? fields.u64() : fields.u32();
  if (signature != zip_descriptor || crc != item.header.crc || packed != size ||
      size != item.header.size)
    damaged(name + ": the descriptor behind it differs from the directory", item.end);
}

IKEBANA_INLINE void ZipReader::check_layout(std::vector<Listed> items, std::uint64_t limit) const {
  std::sort(items.begin(), items.end(),
            [](const Listed& a, const Listed& b) { return a.header.offset < b.header.offset; });
  std::uint64_t end = 0;
  for (const Listed& item : items) {
    if (item.header.offset < end)
      damaged(quoted(item.name) + " overlaps the entry before it", item.header.offset);
    if (item.header.offset > end)
      damaged("bytes before " + quoted(item.name) + " belong to no entry", end);
    end = item.end;
  }
  if (end != limit) damaged("bytes before the directory belong to no entry", end);
}

IKEBANA_INLINE void ZipReader::take(const std::vector<Listed>& items) {
  root_ = items[0].name.substr(0, items[0].name.find('/'));
  const auto is_in_root = [&](const Listed& item) {
    return item.name.size() > root_.size() && item.name.starts_with(root_) &&
           item.name[root_.size()] == '/';
  };
  if (!std::all_of(items.begin(), items.end(), is_in_root)) root_.clear();
  for (const Listed& item : items) {
    if (item.name.ends_with('/')) continue;
    std::string name = item.name.substr(root_.empty() ? 0 : root_.size() + 1);
    if (!index_.emplace(name, entries_.size()).second)
      damaged(quoted(item.name) + " appears twice", item.at);
    entries_.push_back({std::move(name), item.header.size, item.begin, item.header.crc});
  }
}

IKEBANA_INLINE std::string ZipReader::bytes_at(std::uint64_t offset, std::size_t n) {
  std::string bytes(n, '\0');
  file_->read(offset, bytes.data(), n);
  return bytes;
}

IKEBANA_INLINE void ZipReader::damaged(const std::string& what, std::uint64_t offset) const {
  throw BadFile("load: `" + path_.string() + "` is damaged or not a zip archive, at byte " +
                std::to_string(offset) + ": " + what + ". Use another copy, or write it again.");
}

IKEBANA_INLINE void ZipReader::refuse(const std::string& what, std::uint64_t offset,
                                      const std::string& cure) const {
  throw BadFile("load: `" + path_.string() + "` cannot be read, at byte " + std::to_string(offset) +
                ": " + what + ". " + cure);
}

IKEBANA_INLINE std::string ZipReader::quoted(std::string_view name) {
  return "`" + Json::excerpt(name) + "`";
}

}  // namespace ikebana::detail
