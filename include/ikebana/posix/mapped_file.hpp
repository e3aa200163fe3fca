#pragma once
// Maps memory to a file without a name.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <cstring>
#include <ikebana/posix/files.hpp>
#include <mutex>
#include <string>
#include <utility>

namespace ikebana::detail {

/// A file in a folder that no path names, so that it is freed when the process ends, however that
/// ends. Its blocks are reserved when it is made: a full disk is an error then, and never a signal
/// when memory is written.
class MappedFile {
 public:
  /// Throws FileFailed if the folder cannot be written or has no room, BadValue for a folder in
  /// memory.
  MappedFile(const Files::Path& folder, std::size_t bytes);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  std::size_t size() const { return bytes_; }
  bool has(const void* address) const;
  static std::size_t page_bytes() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

  /// Removes whole pages within these bytes of a mapped file from this process's memory; their
  /// values stay in the file, or on their way to it.
  static void release_pages(void* begin, std::size_t n) noexcept;
  /// Begins to read the pages of these bytes ahead.
  static void prefetch_pages(void* begin, std::size_t n) noexcept;
  /// Reads the pages of these bytes into this process's memory at once.
  static void populate_to_read(void* begin, std::size_t n) noexcept;
  static void populate_to_write(void* begin, std::size_t n) noexcept;
  /// Lets the system free the file's cache after it was written to the disk.
  void drop_cache() const noexcept;

 private:
  /// All files of this process.
  struct All {
    std::mutex mutex;
    MappedFile* first = nullptr;
  };
  static All& all();
  /// Gives a copy of the process its own copy of the values, as of other memory: what it writes
  /// changes no file.
  void keep_private_in_copies();
  void copy() const noexcept;
  [[noreturn]] static void failed(const std::string& what, const Files::Path& folder, int code);
  static int open_without_name(const Files::Path& folder);
  static void check_is_disk(const Files::Path& folder, int fd);
  static void advise(void* begin, std::size_t n, int advice) noexcept;
  static std::pair<void*, std::size_t> whole_pages(void* begin, std::size_t n) noexcept;

  std::size_t bytes_;
  int fd_ = -1;
  void* memory_ = nullptr;
  MappedFile *next_ = nullptr, *previous_ = nullptr;  // the neighbours in the list of all mapped
                                                      // files
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/mapped_file.ipp>
#endif
