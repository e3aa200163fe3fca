#pragma once
#include <cstddef>
#include <functional>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/mapped_file.hpp>
#include <ikebana/posix/posix_files.hpp>

namespace ikebana::detail {

IKEBANA_INLINE MappedFile::MappedFile(const Files::Path& folder, std::size_t bytes)
    : bytes_((bytes + page_bytes() - 1) / page_bytes() * page_bytes()) {
  const int fd = open_without_name(folder);
  try {
    check_is_disk(folder, fd);
    int code = may_have_size(bytes_) ? EINTR : EFBIG;
    while (code == EINTR) code = ::posix_fallocate(fd, 0, static_cast<off_t>(bytes_));
    if (code != 0) failed("reserve " + std::to_string(bytes_) + " bytes in", folder, code);
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory_ == MAP_FAILED) failed("map a file in", folder, errno);
#if defined(MADV_HUGEPAGE)  // fewer faults if the file system's cache has large pages
    (void)::madvise(memory_, bytes_, MADV_HUGEPAGE);
#endif
  } catch (...) {
    ::close(fd);
    throw;
  }
  fd_ = fd;
  keep_private_in_copies();
}

IKEBANA_INLINE MappedFile::~MappedFile() {
  {
    const std::lock_guard lock(all().mutex);
    (previous_ ? previous_->next_ : all().first) = next_;
    if (next_) next_->previous_ = previous_;
  }
  ::munmap(memory_, bytes_);
  ::close(fd_);
}

IKEBANA_INLINE bool MappedFile::has(const void* address) const {
  return std::less_equal<>()(data(), address) && std::less<>()(address, data() + bytes_);
}

IKEBANA_INLINE void MappedFile::release_pages(void* begin, std::size_t n) noexcept {
  advise(begin, n, MADV_DONTNEED);
}

IKEBANA_INLINE void MappedFile::prefetch_pages(void* begin, std::size_t n) noexcept {
  advise(begin, n, MADV_WILLNEED);
}

IKEBANA_INLINE void MappedFile::populate_to_read(void* begin, std::size_t n) noexcept {
#if defined(MADV_POPULATE_READ)
  advise(begin, n, MADV_POPULATE_READ);
#else
  advise(begin, n, MADV_WILLNEED);
#endif
}

IKEBANA_INLINE void MappedFile::populate_to_write(void* begin, std::size_t n) noexcept {
#if defined(MADV_POPULATE_WRITE)
  advise(begin, n, MADV_POPULATE_WRITE);
#else
  advise(begin, n, MADV_WILLNEED);
#endif
}

IKEBANA_INLINE void MappedFile::drop_cache() const noexcept {
  (void)::fdatasync(fd_);
  (void)::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED);
}

IKEBANA_INLINE MappedFile::All& MappedFile::all() {
  static auto& all = *new All;  // a file may be destroyed when the process ends
  return all;
}

IKEBANA_INLINE void MappedFile::keep_private_in_copies() {
  static const int is_registered =
      ::pthread_atfork([] { all().mutex.lock(); }, [] { all().mutex.unlock(); },
                       [] {
                         for (auto* file = all().first; file; file = file->next_) file->copy();
                         all().mutex.unlock();
                       });
  (void)is_registered;
  const std::lock_guard lock(all().mutex);
  next_ = std::exchange(all().first, this);
  if (next_) next_->previous_ = this;
}

IKEBANA_INLINE void MappedFile::copy() const noexcept {
  constexpr int may = PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_FIXED;
  if (::mmap(memory_, bytes_, may, how, fd_, 0) == MAP_FAILED)
    (void)::mprotect(memory_, bytes_, PROT_NONE);
}

IKEBANA_INLINE void MappedFile::failed(const std::string& what, const Files::Path& folder,
                                       int code) {
  const bool is_full = code == ENOSPC || code == EDQUOT;
  throw FileFailed("Offload<Disk>: cannot " + what + " `" + folder.string() +
                   "`: " + std::strerror(code) + ". " +
                   (is_full           ? "Free space on that disk, or name a folder on another one."
                    : code == ENOTDIR ? "It must be a folder: name one on a disk."
                    : code == ENOENT  ? "Create that folder first, or correct its path."
                                      : suggestion_for(code)));
}

IKEBANA_INLINE int MappedFile::open_without_name(const Files::Path& folder) {
  int fd = -1;
#if defined(O_TMPFILE)
  fd = retry_if_interrupted(
      [&] { return ::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600); });
  if (fd >= 0) return fd;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
    failed("make a file in", folder, errno);
#endif
  std::string path = (folder / "ikebana-offload-XXXXXX").string();
  fd = ::mkostemp(path.data(), O_CLOEXEC);
  if (fd < 0) failed("make a file in", folder, errno);
  ::unlink(path.c_str());
  return fd;
}

IKEBANA_INLINE void MappedFile::check_is_disk(const Files::Path& folder, int fd) {
  struct statfs system{};
  if (::fstatfs(fd, &system) == 0 && (system.f_type == 0x01021994 || system.f_type == 0x858458f6))
    throw BadValue("Offload<Disk>: `" + folder.string() +
                   "` lies in memory (tmpfs), so that nothing would leave it. Name a folder on "
                   "a disk.");
}

IKEBANA_INLINE void MappedFile::advise(void* begin, std::size_t n, int advice) noexcept {
  if (const auto pages = whole_pages(begin, n); pages.second > 0)
    (void)::madvise(pages.first, pages.second, advice);
}

IKEBANA_INLINE std::pair<void*, std::size_t> MappedFile::whole_pages(void* begin,
                                                                     std::size_t n) noexcept {
  const auto page = page_bytes();
  const auto from = (reinterpret_cast<std::uintptr_t>(begin) + page - 1) / page * page;
  const auto to = (reinterpret_cast<std::uintptr_t>(begin) + n) / page * page;
  return {reinterpret_cast<void*>(from), to > from ? to - from : 0};
}

}  // namespace ikebana::detail
