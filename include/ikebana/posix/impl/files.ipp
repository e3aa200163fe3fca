#pragma once
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/files.hpp>

namespace ikebana::detail {

IKEBANA_INLINE Files::Path with_suffix(const Files::Path& path, const char* suffix) {
  Files::Path extended = path;
  return extended += suffix;
}

IKEBANA_INLINE Files::Path folder_of(const Files::Path& path) {
  return path.has_parent_path() ? path.parent_path() : Files::Path(".");
}

IKEBANA_INLINE void remove_quietly(Files& files, const Files::Path& path) noexcept {
  try {
    files.remove(path);
  } catch (const Error&) {  // called while another error is being reported
  }
}

IKEBANA_INLINE void keep_former(Files& files, const Files::Path& path, const Files::Path& former) {
  files.remove(former);
  if (files.link(path, former)) return;
  const auto from = files.open(path);
  try {
    const auto to = files.create(former, from->size());
    std::string bytes(std::min<std::uint64_t>(from->size(), 1 << 20), '\0');
    for (std::uint64_t at = 0; at < from->size(); at += bytes.size()) {
      const std::size_t n = std::min<std::uint64_t>(bytes.size(), from->size() - at);
      from->read(at, bytes.data(), n);
      to->write(at, bytes.data(), n);
    }
    to->sync();
  } catch (...) {
    remove_quietly(files, former);
    throw;
  }
}

}  // namespace ikebana::detail
