#pragma once
// Reads the orientation of an image from its metadata.
#include <cstddef>
#include <span>
#include <string_view>

namespace ikebana::images::detail {

/// Returns the orientation, 1 to 8, of EXIF data that begin with the TIFF header; 0 if they have
/// none or are damaged. Reads nothing beyond the bytes.
int exif_orientation(std::span<const std::byte> tiff);

/// Returns the orientation that an XMP packet names, or 0.
int xmp_orientation(std::string_view packet);

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/exif.ipp>
