#pragma once
// Reads whole files, and unpacks gzipped ones.
#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace ikebana::images::detail {

/// Returns the bytes of a file. Throws FileFailed.
std::string file_bytes(const std::filesystem::path& path);

/// Returns whether bytes are gzipped.
inline bool is_gzipped(std::string_view bytes) { return bytes.starts_with("\x1f\x8b"); }

/// Unpacks the gzipped `bytes` of a file, and stops at `limit` bytes. Throws BadFile, which names
/// `path`, if they are damaged or cut off.
std::string inflated(std::string_view bytes, std::size_t limit, const std::filesystem::path& path);

}  // namespace ikebana::images::detail

#include <ikebana/images/impl/inflate.ipp>
