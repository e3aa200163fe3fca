#pragma once
// Defines files of the operating system, which is the implementation of files.hpp that saving uses
// by default.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cerrno>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/files.hpp>

namespace ikebana {
namespace detail {

/// Says what a user can do about an error code (errno).
const char* suggestion_for(int code);
[[noreturn]] void file_failed(const char* what, const Files::Path& path, int code);

/// Throws FileFailed if something is at `path`, or at the end of the links that lead on from it,
/// that is no regular file. Every writer of a file calls this first.
void check_replaceable(const Files::Path& path);

/// Calls the system call `f`, and again while a signal interrupts it.
template <class F>
auto retry_if_interrupted(F&& f) {
  decltype(f()) result;
  do result = f();
  while (result == -1 && errno == EINTR);
  return result;
}

/// Returns false if a file of so many bytes is beyond the limit of this process (RLIMIT_FSIZE). The
/// system would end the process by SIGXFSZ there.
bool may_have_size(std::uint64_t bytes) noexcept;

/// RAII: an open file descriptor.
class Descriptor {
 public:
  Descriptor(const char* what, const Files::Path& path, int flags);
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }

 private:
  int fd_;
};

class PosixOutputFile : public OutputFile {
 public:
  /// Opens a file of another process, which has the lock.
  explicit PosixOutputFile(Files::Path path);
  PosixOutputFile(Files::Path path, std::uint64_t size);
  IKEBANA_INLINE void write(std::uint64_t offset, const void* bytes, std::size_t n) override;
  IKEBANA_INLINE void sync() override;

 private:
  static constexpr int flags = O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK;

  /// Locks the file at `path_`. Returns false, so that the caller opens it again, if another file
  /// has that path by now, or if an old file was there: that one is unlinked and not overwritten,
  /// because another hard link to it may be the saved state.
  bool lock();
  /// Starts write-back early, so that fsync is short.
  void start_writeback([[maybe_unused]] std::uint64_t end);
  [[noreturn]] void fail(const std::string& what, int code) const;

  Files::Path path_;
  std::unique_ptr<Descriptor> fd_;
  std::uint64_t writeback_end_ = 0;
};

class PosixInputFile : public InputFile {
 public:
  explicit PosixInputFile(Files::Path path);
  std::uint64_t size() override { return size_; }
  IKEBANA_INLINE void read(std::uint64_t offset, void* bytes, std::size_t n) override;

 private:
  static constexpr int flags = O_RDONLY | O_NONBLOCK;  // does not wait for the writer of a pipe

  Files::Path path_;
  Descriptor fd_;
  std::uint64_t size_ = 0;
};

}  // namespace detail

/// The operating system's files. Saving uses them unless it is given other `Files`.
class PosixFiles : public Files {
 public:
  IKEBANA_INLINE std::unique_ptr<OutputFile> create(const Path& path, std::uint64_t size) override;
  IKEBANA_INLINE std::unique_ptr<OutputFile> open_to_write(const Path& path) override;
  IKEBANA_INLINE std::unique_ptr<InputFile> open(const Path& path) override;
  IKEBANA_INLINE bool exists(const Path& path) override;
  void check_replaceable(const Path& path) override { detail::check_replaceable(path); }
  IKEBANA_INLINE void rename(const Path& from, const Path& to) override;
  IKEBANA_INLINE bool link(const Path& from, const Path& to) override;
  IKEBANA_INLINE void remove(const Path& path) override;
  IKEBANA_INLINE void sync_folder(const Path& folder) override;
  IKEBANA_INLINE void make_folder(const Path& folder) override;
  IKEBANA_INLINE std::vector<std::string> list(const Path& folder) override;
};

/// Returns the shared instance of PosixFiles. It has no state.
Files& system_files();

namespace detail {

/// Replaces `path` by a file with the text. If it throws FileFailed, the file is as it was.
void write_file(const std::filesystem::path& path, const std::string& text);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/posix/impl/posix_files.ipp>
#endif
