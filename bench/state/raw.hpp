#pragma once
// Writes and reads files by system calls alone, as an expert would: what saving is compared with.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace raw {

using Path = std::filesystem::path;
inline constexpr std::size_t chunk_size = 16 << 20;

inline void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("raw: cannot ") + what);
}

struct File {
  File(const Path& path, int flags) : fd(::open(path.c_str(), flags, 0666)) {
    require(fd >= 0, path.c_str());
  }
  ~File() { ::close(fd); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd;
};

inline void sync(const Path& path) { require(::fsync(File(path, O_RDONLY).fd) == 0, "sync"); }
/// Writes a new file, syncs it, renames it over the old one, and syncs the name. `early` starts
/// write-back before everything is written.
inline void write(const Path& path, const std::vector<char>& bytes, bool early) {
  const Path new_path = path.string() + ".new";
  File file(new_path, O_WRONLY | O_CREAT | O_TRUNC);
  for (std::size_t at = 0; at < bytes.size();) {
    const auto n = ::write(file.fd, bytes.data() + at, std::min(chunk_size, bytes.size() - at));
    require(n > 0, "write");
    if (early) ::sync_file_range(file.fd, static_cast<off_t>(at), n, SYNC_FILE_RANGE_WRITE);
    at += static_cast<std::size_t>(n);
  }
  require(::fsync(file.fd) == 0, "sync");
  std::filesystem::rename(new_path, path);
  sync(path.parent_path());
}
/// Reads into existing memory.
inline void read_into(const Path& path, std::vector<char>& bytes) {
  File file(path, O_RDONLY);
  for (std::size_t at = 0; at < bytes.size();) {
    const auto n = ::read(file.fd, bytes.data() + at, std::min(chunk_size, bytes.size() - at));
    require(n > 0, "read");
    at += static_cast<std::size_t>(n);
  }
}
inline std::vector<char> read(const Path& path) {
  std::vector<char> bytes(std::filesystem::file_size(path));
  read_into(path, bytes);
  return bytes;
}
/// Drops a durable file from the cache, so that the next read comes from the disk.
inline void drop_from_cache(const Path& path) {
  require(::posix_fadvise(File(path, O_RDONLY).fd, 0, 0, POSIX_FADV_DONTNEED) == 0,
          "drop from the cache");
}

}  // namespace raw
