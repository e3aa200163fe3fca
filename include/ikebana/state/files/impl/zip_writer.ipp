#pragma once
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/state/files/crc32.hpp>
#include <ikebana/state/files/json.hpp>
#include <ikebana/state/files/zip_reader.hpp>
#include <ikebana/state/files/zip_writer.hpp>
#include <utility>

namespace ikebana::detail {

inline constexpr std::uint64_t zip_alignment = 64;
inline constexpr std::uint16_t padding_extra = 0x4246;  // the extra field that PyTorch pads with
inline constexpr std::uint16_t zip_version = 20, zip64_version = 45;  // the versions that a reader
                                                                      // must know
inline constexpr std::uint32_t zip_time = 0x00210000;                 // 1980-01-01, 0:00

/// Returns numbers as they stand in a record.
template <class... Numbers>
std::string zip_record(Numbers... numbers) {
  std::string bytes;
  (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
  return bytes;
}

/// Returns a number as it is written in a field of 32 bits. Numbers that do not fit are written
/// elsewhere.
inline std::uint32_t narrow(std::uint64_t number) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(number, zip_wide));
}

IKEBANA_INLINE ZipWriter::ZipWriter(std::string root) : root_(std::move(root)) {
  const std::string problem =
      root_.find('/') != root_.npos ? "has a `/`" : problem_of_zip_name(root_);
  if (!problem.empty())
    throw BadValue("archive: the root folder's name `" + Json::excerpt(root_) + "` " + problem +
                   ". Give the name of a folder, such as \"model\".");
}

IKEBANA_INLINE void ZipWriter::add(const std::string& name, std::string text) {
  Item item;
  item.size = text.size(), item.text = std::move(text);
  append(name, std::move(item));
}

IKEBANA_INLINE void ZipWriter::add(const std::string& name, std::uint64_t bytes, Source source) {
  Item item;
  item.size = bytes, item.source = std::move(source);
  append(name, std::move(item));
}

IKEBANA_INLINE void ZipWriter::add_records_of_pytorch() {
  add(".data/version", "6\n");  // as torch.export.save of LibTorch 2.11 writes it
  add("byteorder", "little");
}

IKEBANA_INLINE void ZipWriter::append(const std::string& name, Item item) {
  item.name = root_ + "/" + name;
  const bool is_new = names_.insert(name).second;
  const std::string problem = !is_new                     ? "appears twice"
                              : item.name.ends_with('/')  ? "ends with `/`"
                              : item.name.size() > 0xffff ? "is longer than 65,535 bytes"
                                                          : problem_of_zip_name(item.name);
  if (!problem.empty())
    throw BadValue("archive: the entry `" + Json::excerpt(item.name) + "` " + problem +
                   ". Use another name.");
  item.at = end_;
  const std::uint64_t texts = zip_local_bytes + item.name.size() + (item.is_wide() ? 20 : 0) + 4;
  item.begin = (item.at + texts + zip_alignment - 1) / zip_alignment * zip_alignment;
  end_ = item.begin + item.size;
  directory_ += zip_central_bytes + item.name.size() + wide_extra(item).size();
  items_.push_back(std::move(item));
}

IKEBANA_INLINE bool ZipWriter::has_wide_end() const {
  return items_.size() >= 0xffff || end_ >= zip_wide || directory_ >= zip_wide;
}

IKEBANA_INLINE std::uint64_t ZipWriter::size() const {
  return end_ + directory_ + zip_end_bytes +
         (has_wide_end() ? zip64_end_bytes + zip64_locator_bytes : 0);
}

IKEBANA_INLINE void ZipWriter::write(Files& files, const Files::Path& path) {
  const auto is_intact = [&](const Files::Path& present) {
    try {
      ZipReader(files, present).check_all();
      return true;
    } catch (const BadFile&) {
      return false;
    }
  };
  write_durably(files, path, size(), [&](OutputFile& file) { write(file); }, is_intact);
}

IKEBANA_INLINE void ZipWriter::write(OutputFile& file) {
  std::string directory;
  for (Item& item : items_) {
    write_bytes(file, item);
    const std::string header = local_header(item);  // has the checksum
    file.write(item.at, header.data(), header.size());
    directory += directory_entry(item);
  }
  directory += end_records();
  file.write(end_, directory.data(), directory.size());
}

IKEBANA_INLINE void ZipWriter::write_bytes(OutputFile& file, Item& item) {
  std::uint64_t at = 0;
  item.crc = 0;
  const auto check = [&](bool fits) {
    if (!fits) throw Error("archive: another size than announced: `" + item.name + "`");
  };
  const Sink sink = [&](const void* bytes, std::size_t n) {
    check(n <= item.size - at);
    for (const auto* from = static_cast<const unsigned char*>(bytes); n > 0;) {
      const std::size_t part = std::min<std::size_t>(n, zip_chunk_bytes);
      item.crc = crc32(item.crc, from, part);
      file.write(item.begin + at, from, part);
      from += part, at += part, n -= part;
    }
  };
  if (item.source) item.source(sink);
  else sink(item.text.data(), item.text.size());
  check(at == item.size);
}

IKEBANA_INLINE std::string ZipWriter::local_header(const Item& item) {
  const std::uint16_t name = static_cast<std::uint16_t>(item.name.size());
  std::string extra;
  if (item.is_wide()) extra = zip_record(zip64_extra, std::uint16_t{16}, item.size, item.size);
  const std::uint64_t field = item.at + zip_local_bytes + name + extra.size() + 4;
  const auto padding = static_cast<std::uint16_t>(item.begin - field);
  extra += zip_record(padding_extra, padding) + std::string(padding, '\0');
  const std::uint32_t size = narrow(item.size);
  return zip_record(zip_local, item.is_wide() ? zip64_version : zip_version, zip_utf8,
                    std::uint16_t{0}, zip_time, item.crc, size, size, name,
                    static_cast<std::uint16_t>(extra.size())) +
         item.name + extra;
}

IKEBANA_INLINE std::string ZipWriter::wide_extra(const Item& item) {
  std::string numbers;
  if (item.is_wide()) numbers += zip_record(item.size, item.size);
  if (item.is_far()) numbers += zip_record(item.at);
  if (numbers.empty()) return numbers;
  return zip_record(zip64_extra, static_cast<std::uint16_t>(numbers.size())) + numbers;
}

IKEBANA_INLINE std::string ZipWriter::directory_entry(const Item& item) {
  const std::string extra = wide_extra(item);
  const std::uint16_t version = extra.empty() ? zip_version : zip64_version, none = 0;
  const std::uint32_t size = narrow(item.size), attributes = 0;
  return zip_record(zip_central, version, version, zip_utf8, none, zip_time, item.crc, size, size,
                    static_cast<std::uint16_t>(item.name.size()),
                    static_cast<std::uint16_t>(extra.size()), none, none, none, attributes,
                    narrow(item.at)) +
         item.name + extra;
}

IKEBANA_INLINE std::string ZipWriter::end_records() const {
  std::string records;
  const std::uint64_t count = items_.size();
  const std::uint32_t disk = 0, disks = 1;
  if (has_wide_end())
    records = zip_record(zip64_end, std::uint64_t{zip64_end_bytes - 12}, zip64_version,
                         zip64_version, disk, disk, count, count, directory_, end_) +
              zip_record(zip64_locator, disk, end_ + directory_, disks);
  const auto few = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xffff));
  const std::uint16_t none = 0;
  return records +
         zip_record(zip_end, none, none, few, few, narrow(directory_), narrow(end_), none);
}

}  // namespace ikebana::detail
