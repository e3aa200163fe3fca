#pragma once
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <system_error>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE const char* suggestion_for(int code) {
  switch (code) {
    case ENOSPC:
    case EDQUOT:
      return "Free space on that disk, keep fewer states, or name another folder.";
    case EACCES:
    case EPERM:
    case EROFS:
      return "Name a folder that this program may write to.";
    case ENOENT:
      return "Correct the path. To write a file there, create its folder first.";
    case EISDIR:
      return "It is a folder: name a file in it, or another path.";
    case ENOTDIR:
      return "A part of the path is no folder: remove it, or name another path.";
    case EFBIG:
      return "Raise the limit of file sizes (ulimit -f), or name a disk with room for such files.";
    case EWOULDBLOCK:
      return "Another process is saving to it: give each process its own path.";
    case ELOOP:
      return "It is a symbolic link, which may point anywhere: remove it.";
    case EIO:
      return "The disk or its connection failed: check the system's log.";
    default:
      return "Check the path and its disk.";
  }
}

IKEBANA_INLINE void file_failed(const char* what, const Files::Path& path, int code) {
  throw FileFailed(std::string("files: cannot ") + what + " `" + path.string() +
                   "`: " + std::strerror(code) + ". " + suggestion_for(code));
}

/// Throws FileFailed for a folder, a device, a pipe or a socket, which are no regular files.
inline void check_regular(const char* what, const Files::Path& path, const struct stat& status) {
  if (S_ISREG(status.st_mode)) return;
  if (S_ISDIR(status.st_mode)) file_failed(what, path, EISDIR);
  throw FileFailed(std::string("files: cannot ") + what + " `" + path.string() +
                   "`: it is a pipe, a socket or a device. Name a regular file.");
}

IKEBANA_INLINE void check_replaceable(const Files::Path& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) check_regular("write", path, status);
}

IKEBANA_INLINE bool may_have_size(std::uint64_t bytes) noexcept {
  struct rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
         bytes <= limit.rlim_cur;
}

IKEBANA_INLINE Descriptor::Descriptor(const char* what, const Files::Path& path, int flags)
    : fd_(retry_if_interrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); })) {
  if (fd_ < 0) file_failed(what, path, errno);
}

IKEBANA_INLINE PosixOutputFile::PosixOutputFile(Files::Path path)
    : path_(std::move(path)),
      fd_(std::make_unique<Descriptor>("write", path_, O_WRONLY | O_NOFOLLOW | O_NONBLOCK)) {
  struct stat status{};
  if (::fstat(*fd_, &status) == 0) check_regular("write", path_, status);
}

IKEBANA_INLINE PosixOutputFile::PosixOutputFile(Files::Path path, std::uint64_t size)
    : path_(std::move(path)), fd_(std::make_unique<Descriptor>("create", path_, flags)) {
  while (!lock()) fd_ = std::make_unique<Descriptor>("create", path_, flags);
  if (!may_have_size(size)) {
    ::unlink(path_.c_str());
    fail("reserve " + std::to_string(size) + " bytes for", EFBIG);
  }
#if defined(__linux__)
  // This reports a full disk before anything is written, on file systems that can reserve space.
  if (size > 0 && retry_if_interrupted([&] { return ::fallocate(*fd_, 0, 0, off_t(size)); }) != 0 &&
      errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL) {
    const int code = errno;
    ::unlink(path_.c_str());
    fail("reserve " + std::to_string(size) + " bytes for", code);
  }
#endif
}

IKEBANA_INLINE void PosixOutputFile::write(std::uint64_t offset, const void* bytes, std::size_t n) {
  auto from = static_cast<const char*>(bytes);
  if (!may_have_size(offset + n)) fail("write", EFBIG);
  while (n > 0) {
    const auto done =
        retry_if_interrupted([&] { return ::pwrite(*fd_, from, n, static_cast<off_t>(offset)); });
    if (done < 0) fail("write", errno);
    from += done, offset += static_cast<std::uint64_t>(done), n -= static_cast<std::size_t>(done);
  }
  start_writeback(offset);
}

IKEBANA_INLINE void PosixOutputFile::sync() {
  if (retry_if_interrupted([&] { return ::fsync(*fd_); }) != 0) fail("sync", errno);
}

IKEBANA_INLINE bool PosixOutputFile::lock() {
  if (retry_if_interrupted([&] { return ::flock(*fd_, LOCK_EX | LOCK_NB); }) != 0)
    if (errno == EWOULDBLOCK) file_failed("write", path_, errno);  // other errors: no locks here
  struct stat opened{}, at_path{};
  if (::fstat(*fd_, &opened) == 0) check_regular("write", path_, opened);
  if (::fstat(*fd_, &opened) != 0 || ::lstat(path_.c_str(), &at_path) != 0 ||
      opened.st_ino != at_path.st_ino || opened.st_dev != at_path.st_dev)
    return false;
  if (opened.st_size == 0 && opened.st_nlink <= 1) return true;
  if (::unlink(path_.c_str()) != 0) file_failed("replace", path_, errno);
  return false;
}

IKEBANA_INLINE void PosixOutputFile::start_writeback([[maybe_unused]] std::uint64_t end) {
#if defined(__linux__)
  constexpr std::uint64_t min = 8 << 20;
  if (end < writeback_end_ + min) return;
  (void)::sync_file_range(*fd_, static_cast<off_t>(writeback_end_),
                          static_cast<off_t>(end - writeback_end_), SYNC_FILE_RANGE_WRITE);
  writeback_end_ = end;
#endif
}

IKEBANA_INLINE void PosixOutputFile::fail(const std::string& what, int code) const {
  file_failed(what.c_str(), path_, code);
}

IKEBANA_INLINE PosixInputFile::PosixInputFile(Files::Path path)
    : path_(std::move(path)), fd_("read", path_, flags) {
  struct stat status{};
  if (::fstat(fd_, &status) != 0) file_failed("read", path_, errno);
  check_regular("read", path_, status);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

IKEBANA_INLINE void PosixInputFile::read(std::uint64_t offset, void* bytes, std::size_t n) {
  auto to = static_cast<char*>(bytes);
  while (n > 0) {
    const auto done =
        retry_if_interrupted([&] { return ::pread(fd_, to, n, static_cast<off_t>(offset)); });
    if (done <= 0) file_failed("read", path_, done < 0 ? errno : EIO);
    to += done, offset += static_cast<std::uint64_t>(done), n -= static_cast<std::size_t>(done);
  }
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE std::unique_ptr<OutputFile> PosixFiles::create(const Path& path,
                                                              std::uint64_t size) {
  return std::make_unique<detail::PosixOutputFile>(path, size);
}

IKEBANA_INLINE std::unique_ptr<OutputFile> PosixFiles::open_to_write(const Path& path) {
  return std::make_unique<detail::PosixOutputFile>(path);
}

IKEBANA_INLINE std::unique_ptr<InputFile> PosixFiles::open(const Path& path) {
  return std::make_unique<detail::PosixInputFile>(path);
}

IKEBANA_INLINE bool PosixFiles::exists(const Path& path) {
  std::error_code code;
  return std::filesystem::exists(std::filesystem::symlink_status(path, code));
}

IKEBANA_INLINE void PosixFiles::rename(const Path& from, const Path& to) {
  detail::check_replaceable(to);
  if (::rename(from.c_str(), to.c_str()) != 0) detail::file_failed("rename to", to, errno);
}

IKEBANA_INLINE bool PosixFiles::link(const Path& from, const Path& to) {
  return ::link(from.c_str(), to.c_str()) == 0;
}

IKEBANA_INLINE void PosixFiles::remove(const Path& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) detail::file_failed("remove", path, errno);
}

IKEBANA_INLINE void PosixFiles::sync_folder(const Path& folder) {
  detail::Descriptor fd("open", folder, O_RDONLY | O_DIRECTORY);
  // Some network file systems do not support this; their server has the names already.
  if (detail::retry_if_interrupted([&] { return ::fsync(fd); }) != 0 && errno != EINVAL &&
      errno != ENOTSUP)
    detail::file_failed("sync", folder, errno);
}

IKEBANA_INLINE void PosixFiles::make_folder(const Path& folder) {
  std::error_code code;
  if (std::filesystem::is_directory(folder, code)) return;
  const Path parent = detail::folder_of(folder);
  make_folder(parent);
  if (::mkdir(folder.c_str(), 0777) != 0) {
    const int error = errno == EEXIST ? ENOTDIR : errno;
    if (!std::filesystem::is_directory(folder, code))  // another process may have created it
      detail::file_failed("make the folder", folder, error);
  }
  sync_folder(parent);  // else a power failure may lose the folder with its contents
}

IKEBANA_INLINE std::vector<std::string> PosixFiles::list(const Path& folder) {
  std::error_code code;
  std::vector<std::string> names;
  std::filesystem::directory_iterator at(folder, code);
  for (; !code && at != std::filesystem::directory_iterator(); at.increment(code))
    names.push_back(at->path().filename().string());
  if (code) detail::file_failed("list", folder, code.value());
  return names;
}

IKEBANA_INLINE Files& system_files() {
  static PosixFiles files;
  return files;
}

IKEBANA_INLINE void detail::write_file(const std::filesystem::path& path, const std::string& text) {
  write_durably(
      system_files(), path, text.size(),
      [&](OutputFile& file) { file.write(0, text.data(), text.size()); },
      [](const auto&) { return true; });
}

}  // namespace ikebana
