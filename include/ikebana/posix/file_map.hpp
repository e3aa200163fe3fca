#pragma once
// Maps a file that is read for a long time, in parts and by several threads.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

namespace ikebana::detail {

class Descriptor;

/// A map of a file's bytes, which are read from the disk when they are used. The file must not
/// change meanwhile: `check` says so, and a part is used only after it. As with every map, a file
/// that is cut off between the check and the use ends the process (SIGBUS). Pages that were used
/// count as memory of the process until the system needs it; of a large file they are released
/// after every 256 MiB, and stay in the system's cache. May be used by several threads at once.
class FileMap {
 public:
  using Path = std::filesystem::path;

  /// Throws FileFailed if the file cannot be read or is no regular file.
  explicit FileMap(Path path);
  FileMap(FileMap&& other) noexcept;
  FileMap& operator=(FileMap&&) = delete;
  ~FileMap();

  const Path& path() const { return path_; }
  /// Returns the number of bytes.
  std::uint64_t size() const { return status_.size; }
  /// Throws BadFile if the file was changed since it was mapped. Takes about 0.2 us.
  void check() const;
  /// Returns `n` bytes from `offset`; `offset` + `n` is at most `size()`. Call `check` before.
  const std::byte* bytes(std::uint64_t offset, std::size_t n) const;
  /// Returns them after `check`.
  const std::byte* read(std::uint64_t offset, std::size_t n) const {
    return check(), bytes(offset, n);
  }

 private:
  struct State {
    std::uint64_t size = 0;
    std::int64_t seconds = 0, nanoseconds = 0;  // the time of the last change
    bool operator==(const State&) const = default;
  };
  State status() const;
  void release() const noexcept;

  Path path_;
  std::unique_ptr<Descriptor> file_;
  State status_;
  void* map_ = nullptr;
  mutable std::atomic<std::uint64_t> used_ = 0;  // about the bytes of pages that were used
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/file_map.ipp>
#endif
