#pragma once
// Writes a text to a file.
#include <filesystem>
#include <fstream>
#include <ikebana/error.hpp>
#include <string>

namespace ikebana::detail {

/// Replaces `path`. Throws FileFailed, and then the file may have a part of the text.
inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (!file)
    throw FileFailed("memory: " + path.string() +
                     " cannot be written. Does its folder exist, and is there room?");
}

}  // namespace ikebana::detail
