#pragma once
// Tensors in files without a name, whose pages leave memory when they are not needed.
#include <ikebana/detail/form.hpp>
#include <ikebana/offload/offload_memory.hpp>
#include <ikebana/posix/mapped_file.hpp>
#include <ikebana/posix/process.hpp>
#include <map>

namespace ikebana::detail {

/// Memory in files of a folder. Each tensor begins at a page of its own, and keeps its file as long
/// as it exists: one of its own where it is large, else one with others, of `first_bytes` or of
/// twice as many as the last one, up to `file_bytes`.
class FileMemory final : public OffloadMemory {
 public:
  static constexpr std::size_t first_bytes = std::size_t(1) << 20, file_bytes = std::size_t(64)
                                                                                << 20;

  /// Throws BadValue for no folder or one in memory, FileFailed for one that cannot be written.
  explicit FileMemory(std::filesystem::path folder);

  IKEBANA_INLINE at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                                     at::ScalarType type) override;
  IKEBANA_INLINE void reserve(const at::Tensor& like) override;
  /// A child sees what its parent writes to a file later.
  IKEBANA_INLINE void check_process() const override;
  // Of tensors that lie elsewhere these do nothing.
  IKEBANA_INLINE void release_pages(const at::Tensor& t) noexcept override;
  IKEBANA_INLINE void prefetch_pages(const at::Tensor& t) noexcept override;
  IKEBANA_INLINE void populate_pages(const at::Tensor& t, bool writes) noexcept override;

 private:
  struct Space {
    std::byte* memory = nullptr;
    std::shared_ptr<MappedFile> file = {};
  };

  static std::size_t space_of(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);
  Space new_space(std::size_t bytes);
  static std::size_t whole_pages(std::size_t bytes) noexcept;
  void advise(const at::Tensor& t, void (*advice)(void*, std::size_t) noexcept) const noexcept;
  std::shared_ptr<MappedFile> new_file(std::size_t bytes);

  std::filesystem::path folder_;
  std::shared_ptr<MappedFile> file_;              // of the next small tensor
  std::vector<std::weak_ptr<MappedFile>> files_;  // that tensors keep
  std::multimap<std::size_t, Space> reserved_;    // by bytes: for tensors to come
  mutable std::mutex mutex_;
  std::size_t used_ = 0;  // bytes of it
  std::size_t next_ = first_bytes;
  OwnProcess process_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/offload/impl/file_memory.ipp>
#endif
