#pragma once
// The file interface that saving uses: every write, sync, rename and removal of the library goes
// through it. PosixFiles implements it; write_durably replaces a file atomically.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ikebana {

/// A file that is being written. Every method throws FileFailed.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  /// Writes `n` bytes at `offset`, which is in bytes from the file's beginning.
  virtual void write(std::uint64_t offset, const void* bytes, std::size_t n) = 0;
  /// Returns when everything written is durable. Do not retry after an exception: the system may
  /// have dropped the data that it could not write.
  virtual void sync() = 0;
};

/// A file that is being read. Every method throws FileFailed.
class InputFile {
 public:
  virtual ~InputFile() = default;
  /// Returns the number of bytes in the file.
  virtual std::uint64_t size() = 0;
  /// Reads exactly `n` bytes from `offset`, else throws FileFailed.
  virtual void read(std::uint64_t offset, void* bytes, std::size_t n) = 0;
};

/// The operations on files and folders. Tests replace it by a disk that loses what was not synced.
class Files {
 public:
  using Path = std::filesystem::path;

  virtual ~Files() = default;
  /// Creates a file that will hold `size` bytes. Replaces `path`; other hard links to the old file
  /// stay valid. Throws FileFailed if another process is writing to `path`.
  virtual std::unique_ptr<OutputFile> create(const Path& path, std::uint64_t size) = 0;
  /// Opens a file that another process has created and is writing, to write parts of it.
  virtual std::unique_ptr<OutputFile> open_to_write(const Path& path) = 0;
  virtual std::unique_ptr<InputFile> open(const Path& path) = 0;
  virtual bool exists(const Path& path) = 0;
  /// Throws FileFailed if something is at `path` that is no regular file, such as a device, which
  /// a new file would replace. Links are followed.
  virtual void check_replaceable(const Path&) {}
  /// Replaces `to` atomically.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// Makes `to` a hard link to `from`. Returns false if the file system has no hard links.
  virtual bool link(const Path& from, const Path& to) = 0;
  /// Does nothing if `path` does not exist.
  virtual void remove(const Path& path) = 0;
  /// Returns when the folder's entries (created, renamed and removed names) are durable.
  virtual void sync_folder(const Path& folder) = 0;
  /// Creates the folder and its missing parents.
  virtual void make_folder(const Path& folder) = 0;
  /// Returns the names of the folder's entries, in no particular order.
  virtual std::vector<std::string> list(const Path& folder) = 0;
};

namespace detail {

Files::Path with_suffix(const Files::Path& path, const char* suffix);
Files::Path folder_of(const Files::Path& path);
/// The suffixes of a file that is being written, and of the one that it replaces until it is
/// durable. Such files are replaced and removed, so no other program's files should have these
/// names.
inline constexpr const char *new_suffix = ".ikebana-new", *former_suffix = ".ikebana-former";

void remove_quietly(Files& files, const Files::Path& path) noexcept;

/// Makes `former` a hard link to `path`, or a copy of it if there are no hard links.
void keep_former(Files& files, const Files::Path& path, const Files::Path& former);

/// Does the last part of `write_durably`, after the new file is written and synced.
template <class IsIntact>
void put_in_place(Files& files, const Files::Path& path, IsIntact&& is_intact) {
  const auto new_path = with_suffix(path, new_suffix), former = with_suffix(path, former_suffix);
  const auto folder = folder_of(path);
  try {
    const bool was_interrupted = files.exists(former);
    if (was_interrupted) files.sync_folder(folder);  // its rename may not be durable yet
    if (files.exists(path) && (!was_interrupted || is_intact(path)))
      keep_former(files, path, former);
    files.sync_folder(folder);
    files.rename(new_path, path);
  } catch (...) {
    remove_quietly(files, new_path);
    throw;
  }
  files.sync_folder(folder);
  files.remove(former);
}

/// Replaces `path` by a file of `size` bytes, which `write(file)` writes. At every instant, `path`
/// or the former file (the path with `former_suffix`) is intact, also if the process is killed or
/// the power fails. For this, the bytes are written to a new file (`new_suffix`), which is synced.
/// The present file is kept as the former one, and the new one is renamed to `path`. Each step is
/// durable before the next one begins. An exception before the rename leaves `path` as it was. If
/// an earlier save was interrupted and both `path` and the former file exist, `is_intact(path)`
/// decides which of the two is kept.
template <class Write, class IsIntact>
void write_durably(Files& files, const Files::Path& path, std::uint64_t size, Write&& write,
                   IsIntact&& is_intact) {
  files.check_replaceable(path);
  const auto new_path = with_suffix(path, new_suffix);
  const std::unique_ptr<OutputFile> file = files.create(new_path, size);  // holds the lock
  try {
    write(*file);
    file->sync();
  } catch (...) {
    remove_quietly(files, new_path);
    throw;
  }
  put_in_place(files, path, is_intact);
}

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/files.ipp>
#endif
