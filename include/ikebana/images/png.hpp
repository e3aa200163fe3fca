#pragma once
// Decodes PNG images by libpng.
#include <ikebana/images/pixels.hpp>
#include <span>

namespace ikebana::images::detail {

/// Decodes a PNG to its own channels if `mode` is Unchanged, to one channel if it is grey and
/// `mode` is Gray, and else to RGB. Throws as `decode`.
Pixels decode_png(std::span<const std::byte> bytes, const DecodeOptions& options,
                  std::string_view name);

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/png.ipp>
