#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/append_file.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void check_appendable(const Files::Path& path) {
  check_replaceable(path);
  Descriptor("write to", path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK);
}

IKEBANA_INLINE void check_not_in_use(const Files::Path& path) {
  if (!system_files().exists(path)) return;
  const Descriptor fd("read", path, O_RDONLY | O_NONBLOCK);
  if (retry_if_interrupted([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) != 0 &&
      errno == EWOULDBLOCK)
    throw FileFailed("files: cannot write to `" + path.string() +
                     "`: another logger is writing to it, in this process or another one. Give "
                     "each logger a file of its own.");
}

IKEBANA_INLINE std::string read_text(const Files::Path& path) {
  if (!system_files().exists(path)) return {};
  const auto file = system_files().open(path);
  std::string text(static_cast<std::size_t>(file->size()), '\0');
  file->read(0, text.data(), text.size());
  return text;
}

IKEBANA_INLINE AppendFile::AppendFile(Files::Path path, std::string_view text)
    : path_(std::move(path)) {
  check_replaceable(path_);
  const Files::Path made = with_suffix(path_, new_suffix);
  fd_ = std::make_unique<Descriptor>("write to", made, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW);
  try {
    if (retry_if_interrupted([&] { return ::flock(*fd_, LOCK_EX | LOCK_NB); }) != 0 &&
        errno == EWOULDBLOCK)
      file_failed("write to", path_, errno);
    check_not_in_use(path_);  // after the lock, so that of two that begin now one fails
    if (::ftruncate(*fd_, 0) != 0) file_failed("write to", made, errno);
    write(text);
    if (!text.empty() && ::fsync(*fd_) != 0) file_failed("sync", made, errno);
    system_files().rename(made, path_);
  } catch (...) {
    remove_quietly(system_files(), made);
    throw;
  }
}

IKEBANA_INLINE AppendFile::~AppendFile() = default;

IKEBANA_INLINE void AppendFile::append(std::string_view text) {
  try {
    write(text);
  } catch (...) {
    (void)!::ftruncate(*fd_, static_cast<off_t>(size_));  // if it fails, readers drop a torn line
    throw;
  }
}

IKEBANA_INLINE void AppendFile::write(std::string_view text) {
  if (!may_have_size(size_ + text.size())) file_failed("write to", path_, EFBIG);
  const std::uint64_t end = size_ + text.size();
  while (!text.empty()) {
    const auto done = retry_if_interrupted([&] { return ::write(*fd_, text.data(), text.size()); });
    if (done < 0) file_failed("write to", path_, errno);
    text.remove_prefix(static_cast<std::size_t>(done));
  }
  size_ = end;
}

}  // namespace ikebana::detail
