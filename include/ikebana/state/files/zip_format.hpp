#pragma once
// Defines the records of a zip archive of stored entries, which zip_reader.hpp reads and
// zip_writer.hpp writes. All numbers are little-endian. Source: APPNOTE.TXT of PKWARE, version
// 6.3.10. It is independent of LibTorch.
#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace ikebana::detail {

static_assert(std::endian::native == std::endian::little,
              "ikebana: zip archives are little-endian, and this machine is not. Use one that is.");

/// One file within an archive.
struct ZipEntry {
  std::string name;         // without the root folder
  std::uint64_t size = 0;   // in bytes
  std::uint64_t begin = 0;  // offset of its first byte in the archive
  std::uint32_t crc = 0;
};

/// Entries are read and written in such pieces, which are still in the cache for the checksum.
inline constexpr std::uint64_t zip_chunk_bytes = 1 << 20;

/// Each record begins with one of these.
enum ZipSignature : std::uint32_t {
  zip_local = 0x04034b50,
  zip_central = 0x02014b50,
  zip_descriptor = 0x08074b50,
  zip_end = 0x06054b50,
  zip64_end = 0x06064b50,
  zip64_locator = 0x07064b50
};
/// The sizes of the records in bytes, without the texts at their ends.
inline constexpr std::size_t zip_local_bytes = 30, zip_central_bytes = 46, zip_end_bytes = 22,
                             zip64_end_bytes = 56, zip64_locator_bytes = 20;
/// Flags of an entry: encrypted, followed by a descriptor, and named in UTF-8.
inline constexpr std::uint16_t zip_encrypted = 1, zip_described = 8, zip_utf8 = 0x800;
/// The extra field that holds numbers for which 32 bits do not suffice; these are then `zip_wide`.
inline constexpr std::uint16_t zip64_extra = 1;
inline constexpr std::uint32_t zip_wide = 0xffffffff;

/// Returns the problem of a name that does not lead to a place within the folder in which an
/// archive would be unpacked, or that not all programs read alike. Returns an empty text for a good
/// name.
std::string problem_of_zip_name(std::string_view name);

/// Reads the numbers and the texts of a record, one after another. Behind the record's end, numbers
/// are 0 and texts empty.
class ZipFields {
 public:
  explicit ZipFields(std::string_view bytes) : bytes_(bytes) {}

  std::size_t left() const { return bytes_.size(); }
  std::string_view text(std::size_t n) {
    const std::string_view taken = bytes_.substr(0, n);
    bytes_.remove_prefix(taken.size());
    return taken;
  }
  template <class Number>
  Number number() {
    Number value = 0;
    const std::string_view taken = text(sizeof value);
    std::memcpy(&value, taken.data(), taken.size());
    return value;
  }
  std::uint16_t u16() { return number<std::uint16_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }

 private:
  std::string_view bytes_;
};

/// The numbers that a local header and an entry of the central directory have in common.
struct ZipHeader {
  std::uint16_t flags = 0, method = 0;
  std::uint32_t crc = 0;
  std::uint64_t packed = 0, size = 0;  // bytes in the archive, and of the file
  std::uint16_t name_bytes = 0, extra_bytes = 0;
  // Only an entry of the central directory has these.
  std::uint16_t comment_bytes = 0, disk = 0;
  std::uint64_t offset = 0;  // the offset of the local header
};

/// Reads a record after its signature.
inline ZipHeader zip_header(ZipFields& fields, bool is_central) {
  ZipHeader h;
  fields.text(is_central ? 4 : 2);  // versions
  h.flags = fields.u16(), h.method = fields.u16();
  fields.text(4);  // time and date
  h.crc = fields.u32(), h.packed = fields.u32(), h.size = fields.u32();
  h.name_bytes = fields.u16(), h.extra_bytes = fields.u16();
  if (!is_central) return h;
  h.comment_bytes = fields.u16(), h.disk = fields.u16();
  fields.text(6);  // attributes
  h.offset = fields.u32();
  return h;
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/state/files/impl/zip_format.ipp>
#endif
