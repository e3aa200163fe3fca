#pragma once
#include <sys/mman.h>
#include <ikebana/detail/form.hpp>
#include <ikebana/posix/file_map.hpp>
#include <ikebana/posix/posix_files.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE FileMap::FileMap(Path path)
    : path_(std::move(path)),
      file_(std::make_unique<Descriptor>("read", path_, O_RDONLY | O_NONBLOCK)),
      status_(status()) {
  if (status_.size == 0) return;
  map_ = ::mmap(nullptr, status_.size, PROT_READ, MAP_SHARED, *file_, 0);
  if (map_ == MAP_FAILED) file_failed("map", path_, errno);
}

IKEBANA_INLINE FileMap::FileMap(FileMap&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::move(other.file_)),
      status_(other.status_),
      map_(std::exchange(other.map_, nullptr)) {}

IKEBANA_INLINE FileMap::~FileMap() {
  if (map_) ::munmap(map_, status_.size);
}

IKEBANA_INLINE auto FileMap::status() const -> State {
  struct stat status{};
  if (::fstat(*file_, &status) != 0) file_failed("read", path_, errno);
  if (!S_ISREG(status.st_mode))
    throw FileFailed("files: cannot read `" + path_.string() +
                     "`: it is no regular file. Name a file.");
  return {static_cast<std::uint64_t>(status.st_size),
          static_cast<std::int64_t>(status.st_mtim.tv_sec),
          static_cast<std::int64_t>(status.st_mtim.tv_nsec)};
}

IKEBANA_INLINE void FileMap::check() const {
  if (status() == status_) return;
  throw BadFile("files: `" + path_.string() +
                "` was changed since it was opened, so its samples would be other ones. Write a "
                "new file and rename it to this path instead, or begin again.");
}

IKEBANA_INLINE const std::byte* FileMap::bytes(std::uint64_t offset, std::size_t n) const {
  constexpr std::uint64_t most_used = 256 << 20, around = 64 << 10;  // pages come in such groups
  if (status_.size > most_used &&
      used_.fetch_add(n + around, std::memory_order_relaxed) > most_used) {
    used_ = 0;
    release();
  }
  return static_cast<const std::byte*>(map_) + offset;
}

IKEBANA_INLINE void FileMap::release() const noexcept {
  (void)::madvise(map_, status_.size, MADV_DONTNEED);
}

}  // namespace ikebana::detail
