#pragma once
// Writes a text to a file.
#include <ikebana/posix/posix_files.hpp>

namespace ikebana::detail {

/// Replaces `path` by a file with the text, or throws FileFailed and leaves it as it was.
inline void write_file(const std::filesystem::path& path, const std::string& text) {
  write_durably(
      system_files(), path, text.size(),
      [&](OutputFile& file) { file.write(0, text.data(), text.size()); },
      [](const auto&) { return true; });
}

}  // namespace ikebana::detail
