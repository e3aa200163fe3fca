#pragma once
// Writes a text to a file.
#include <cstring>
#include <filesystem>
#include <string>

namespace ikebana::detail {

/// Replaces `path` by a file with the text. If it throws FileFailed, the file is as it was.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/memory/impl/write_file.ipp>
#endif
