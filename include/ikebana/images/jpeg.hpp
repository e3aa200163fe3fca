#pragma once
// Decodes JPEG images by libjpeg-turbo.
#include <ikebana/images/pixels.hpp>
#include <span>

namespace ikebana::images::detail {

/// Decodes a JPEG to one channel if it is grey and `mode` is not RGB, to CMYK if it is CMYK and
/// `mode` is Unchanged, and else to RGB. Throws as `decode`.
Pixels decode_jpeg(std::span<const std::byte> bytes, const DecodeOptions& options,
                   std::string_view name);

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/jpeg.ipp>
