#pragma once
// Files as saving needs them: every write, sync, rename and removal of the library passes here.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <ikebana/error.hpp>
#include <memory>
#include <string>
#include <vector>

namespace ikebana {

/// A file that is being written. Everything throws FileFailed.
class OutputFile {
 public:
  virtual ~OutputFile() = default;
  virtual void write(std::uint64_t offset, const void* bytes, std::size_t n) = 0;
  /// Returns when everything written is on the disk. Whoever gets an exception must not try again:
  /// the system may have dropped what it could not write.
  virtual void sync() = 0;
};

/// A file that is read. Everything throws FileFailed.
class InputFile {
 public:
  virtual ~InputFile() = default;
  virtual std::uint64_t size() = 0;
  /// All `n` bytes, or FileFailed.
  virtual void read(std::uint64_t offset, void* bytes, std::size_t n) = 0;
};

/// The operations on folders. The tests put a disk in their place that forgets what was not synced.
class Files {
 public:
  using Path = std::filesystem::path;

  virtual ~Files() = default;
  /// A new file of `size` bytes to be. What has this name loses it, and keeps its bytes under its
  /// other names. Throws where another process is writing it.
  virtual std::unique_ptr<OutputFile> create(const Path& path, std::uint64_t size) = 0;
  virtual std::unique_ptr<InputFile> open(const Path& path) = 0;
  virtual bool exists(const Path& path) = 0;
  /// Replaces what `to` was, at once.
  virtual void rename(const Path& from, const Path& to) = 0;
  /// A second name for a file; false where the file system has none.
  virtual bool link(const Path& from, const Path& to) = 0;
  /// Nothing happens where it does not exist.
  virtual void remove(const Path& path) = 0;
  /// Returns when the names in it are on the disk.
  virtual void sync_folder(const Path& folder) = 0;
  virtual void make_folder(const Path& folder) = 0;
  /// The names of what is in it, in no order.
  virtual std::vector<std::string> list(const Path& folder) = 0;
};

namespace detail {

inline Files::Path with_ending(const Files::Path& path, const char* ending) {
  Files::Path longer = path;
  return longer += ending;
}
inline Files::Path folder_of(const Files::Path& path) {
  return path.has_parent_path() ? path.parent_path() : Files::Path(".");
}
/// A generation on its way, and the one before it while the new one is not yet durable.
inline constexpr const char *fresh_ending = ".new", *former_ending = ".former";

inline void remove_quietly(Files& files, const Files::Path& path) noexcept {
  try {
    files.remove(path);
  } catch (const Error&) {  // something else failed before, and is told
  }
}

/// Gives the file at `path` the name `former` as well; a copy has it where there are no such names.
inline void keep_former(Files& files, const Files::Path& path, const Files::Path& former) {
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

/// Writes a file of `size` bytes so that at every instant, whatever is killed or loses power,
/// `path` or `path.former` is whole: a new file, synced; the present one kept under a second name;
/// the new one renamed over it; each step durable before the next. `write(file)` writes the bytes.
/// What throws before the rename leaves `path` as it was. Where a save was cut short before, and
/// both names are there, `is_whole(path)` tells which of the two must be kept.
template <class Write, class IsWhole>
void write_durably(Files& files, const Files::Path& path, std::uint64_t size, Write&& write,
                   IsWhole&& is_whole) {
  const auto fresh = with_ending(path, fresh_ending), former = with_ending(path, former_ending);
  const auto folder = folder_of(path);
  const std::unique_ptr<OutputFile> file = files.create(fresh, size);  // alive to keep its lock
  try {
    write(*file);
    file->sync();
    const bool was_cut_short = files.exists(former);
    if (was_cut_short) files.sync_folder(folder);  // the rename before may not be on the disk
    if (files.exists(path) && (!was_cut_short || is_whole(path))) keep_former(files, path, former);
    files.sync_folder(folder);
    files.rename(fresh, path);
  } catch (...) {
    remove_quietly(files, fresh);
    throw;
  }
  files.sync_folder(folder);
  files.remove(former);
}

}  // namespace detail
}  // namespace ikebana
