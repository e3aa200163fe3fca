#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/memory/write_file.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void write_file(const std::filesystem::path& path, const std::string& text) {
  write_durably(
      system_files(), path, text.size(),
      [&](OutputFile& file) { file.write(0, text.data(), text.size()); },
      [](const auto&) { return true; });
}

}  // namespace ikebana::detail
