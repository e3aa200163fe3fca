#pragma once
// Defines files that grow at their end, such as logs.
#include <cstdint>
#include <ikebana/posix/posix_files.hpp>
#include <memory>
#include <string>
#include <string_view>

namespace ikebana::detail {

/// Throws FileFailed if `path` cannot be appended to. Creates an empty file if it does not exist.
void check_appendable(const Files::Path& path);
/// Throws FileFailed if something in this or another process appends to `path`.
void check_not_in_use(const Files::Path& path);
/// Reads a whole file. Returns an empty text if it does not exist.
std::string read_text(const Files::Path& path);

/// A file that one object at a time appends to: it has the lock of the file. Every method throws
/// FileFailed.
class AppendFile {
 public:
  /// Puts a file with `text` at `path`, atomically: a process that is killed leaves the file of
  /// before or the new one. Locks it. Throws if another object appends to the file of before.
  AppendFile(Files::Path path, std::string_view text);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  /// Appends the whole text. If the disk is full, removes what was written of it.
  void append(std::string_view text);

 private:
  void write(std::string_view text);

  Files::Path path_;
  std::unique_ptr<Descriptor> fd_;
  std::uint64_t size_ = 0;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/append_file.ipp>
#endif
