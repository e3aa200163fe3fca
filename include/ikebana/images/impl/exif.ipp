#pragma once
#include <cstdint>
#include <ikebana/images/exif.hpp>
#include <optional>

namespace ikebana::images::detail {

/// Reads numbers of TIFF data in their byte order.
struct TiffBytes {
  std::span<const std::byte> bytes;
  bool big_endian;

  std::optional<std::uint32_t> number(std::size_t at, std::size_t size) const {
    if (at > bytes.size() || bytes.size() - at < size) return {};
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < size; ++i)
      value = value << 8 |
              std::to_integer<std::uint32_t>(bytes[big_endian ? at + i : at + size - 1 - i]);
    return value;
  }
};

/// Returns the first number of an entry that has the type BYTE, SHORT or LONG, else 0.
inline std::uint32_t tiff_value(const TiffBytes& tiff, std::size_t entry) {
  const std::uint32_t type = tiff.number(entry + 2, 2).value_or(0);
  const std::uint32_t count = tiff.number(entry + 4, 4).value_or(0);
  const std::size_t size = type == 1 ? 1 : type == 3 ? 2 : type == 4 ? 4 : 0;
  if (size == 0 || count == 0) return 0;
  // Values of more than 4 bytes stand elsewhere, and the entry has their offset.
  if (count <= 4 / size) return tiff.number(entry + 8, size).value_or(0);
  const auto offset = tiff.number(entry + 8, 4);
  return offset ? tiff.number(*offset, size).value_or(0) : 0;
}

inline int exif_orientation(std::span<const std::byte> bytes) {
  constexpr std::uint32_t tag = 0x0112;
  if (bytes.size() < 8) return 0;
  TiffBytes tiff{bytes, bytes[0] == std::byte{'M'}};
  if (bytes[0] != bytes[1] || (!tiff.big_endian && bytes[0] != std::byte{'I'})) return 0;
  if (tiff.number(2, 2) != 42u) return 0;
  const std::size_t folder = tiff.number(4, 4).value_or(0);
  const std::uint32_t entries = tiff.number(folder, 2).value_or(0);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t entry = folder + 2 + std::size_t{12} * i;
    if (tiff.number(entry, 2) != tag) continue;
    const std::uint32_t value = tiff_value(tiff, entry);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 0;
  }
  return 0;
}

inline int xmp_orientation(std::string_view packet) {
  constexpr std::string_view name = "tiff:Orientation";
  for (std::size_t at = packet.find(name); at != packet.npos; at = packet.find(name, at + 1)) {
    std::string_view rest = packet.substr(at + name.size());
    if (rest.starts_with("=\"")) rest.remove_prefix(2);
    else if (rest.starts_with(">")) rest.remove_prefix(1);
    else continue;
    if (!rest.empty() && rest[0] >= '1' && rest[0] <= '8') return rest[0] - '0';
  }
  return 0;
}

}  // namespace ikebana::images::detail
