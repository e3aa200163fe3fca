#pragma once
// Defines the memory of offloaded tensors, which is memory of the host or in files, and buffers of
// it that are used again.
#include <ikebana/bridge/host_copies.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/posix/mapped_file.hpp>
#include <ikebana/posix/process.hpp>
#include <map>
#include <mutex>

namespace ikebana::detail {

/// Memory for offloaded tensors, which the host can read and write. The functions on pages do
/// nothing with tensors of other memory.
class OffloadMemory {
 public:
  virtual ~OffloadMemory() = default;
  /// Returns uninitialised memory, as a tensor on the CPU. May throw.
  virtual at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                              at::ScalarType type) = 0;
  /// Throws Error in a forked child if the stored tensors are not its own there.
  virtual void check_process() const {}
  /// Reserves the space of a tensor such as `like`, which is allocated later. May throw.
  virtual void reserve(const at::Tensor& /*like*/) {}
  /// Removes its pages from this process's memory; the values stay.
  virtual void release_pages(const at::Tensor&) noexcept {}
  /// Begins to read its pages ahead.
  virtual void prefetch_pages(const at::Tensor&) noexcept {}
  /// Reads its pages into memory now, all at once.
  virtual void populate_pages(const at::Tensor&, bool /*writes*/) noexcept {}
};

/// Memory of the host, pinned if copies overlap with what the device computes.
class HostMemory final : public OffloadMemory {
 public:
  explicit HostMemory(const bridge::HostCopies& copies) : copies_(copies) {}
  IKEBANA_INLINE at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                                     at::ScalarType type) override;

 private:
  bridge::HostCopies copies_;
};

/// Buffers that are used again, step after step, so that memory is pinned and touched only once.
/// They may outlive the pool.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  /// A buffer, whose bytes return to their pool.
  struct Buffer {
    std::weak_ptr<BufferPool> pool;
    at::Tensor bytes;                   ///< one dimension; at least as many as were asked for
    bridge::StreamEvent last_use = {};  ///< until then a copy may use them

    Buffer(std::weak_ptr<BufferPool> from, at::Tensor memory)
        : pool(std::move(from)), bytes(std::move(memory)) {}
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
  };

  /// A bounded pool frees as much as it allocates, so that it never has more than was in use at
  /// once, also if units have different sizes.
  explicit BufferPool(std::shared_ptr<OffloadMemory> memory, bool bounded = false)
      : memory_(std::move(memory)), bounded_(bounded) {}

  std::unique_ptr<Buffer> take(std::int64_t size);
  /// Frees the buffers that were not used since the last call.
  void free_unused() noexcept;
  OffloadMemory& memory() const { return *memory_; }
  /// Returns the bytes of buffers that are not in use.
  std::int64_t free_bytes() const;

 private:
  struct Free {
    at::Tensor bytes;
    bridge::StreamEvent last_use;
    bool is_unused = false;
  };
  void make_room(std::int64_t size);
  void take_back(Buffer& buffer) noexcept;

  std::shared_ptr<OffloadMemory> memory_;
  bool bounded_;
  std::multimap<std::int64_t, Free> free_;  // the free memory, by its size
  mutable std::mutex mutex_;
};

/// Memory in files of a folder. Each tensor begins at a page of its own, and keeps its file as long
/// as it exists. A large one has a file of its own; others share files of `first_bytes` or of twice
/// as many as the previous file, up to `file_bytes`.
class FileMemory final : public OffloadMemory {
 public:
  static constexpr std::size_t first_bytes = std::size_t(1) << 20, file_bytes = std::size_t(64)
                                                                                << 20;

  /// Throws BadValue for an empty path or a folder in memory, FileFailed for a folder that cannot
  /// be written.
  explicit FileMemory(std::filesystem::path folder);

  IKEBANA_INLINE at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                                     at::ScalarType type) override;
  IKEBANA_INLINE void reserve(const at::Tensor& like) override;
  /// Throws Error in a forked child, which would see what its parent writes to a file later.
  IKEBANA_INLINE void check_process() const override;
  // These do nothing with tensors that lie elsewhere.
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
  std::shared_ptr<MappedFile> file_;              // the file of the next small tensor
  std::vector<std::weak_ptr<MappedFile>> files_;  // the files that tensors keep
  std::multimap<std::size_t, Space> reserved_;    // the spaces for tensors that are allocated
                                                  // later, by their bytes
  mutable std::mutex mutex_;
  std::size_t used_ = 0;  // bytes of `file_` in use
  std::size_t next_ = first_bytes;
  OwnProcess process_;
};

template <class... What>
std::shared_ptr<OffloadMemory> memory_of(const Offload<CPU, What...>&,
                                         const bridge::HostCopies& copies) {
  return std::make_shared<HostMemory>(copies);
}
template <class... What>
std::shared_ptr<OffloadMemory> memory_of(const Offload<Disk, What...>& policy,
                                         const bridge::HostCopies&) {
  return std::make_shared<FileMemory>(policy.folder);
}

/// True for a policy that stores in files of a folder.
template <class Policy>
concept names_folder = requires(Policy policy) { policy.folder; };

/// The folder that a policy named when the trainer was made; empty for a policy without a folder.
template <class Policy>
class NamedFolder {
 public:
  explicit NamedFolder(const Policy&) {}
  void check(const Policy&) const {}
};
template <names_folder Policy>
class NamedFolder<Policy> {
 public:
  explicit NamedFolder(const Policy& policy) : folder_(policy.folder) {}
  /// Throws BadValue if another folder was assigned since.
  void check(const Policy& policy) const {
    check_unchanged(policy.folder == folder_, "Offload<Disk>: folder");
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/offload/impl/offload_memory.ipp>
#endif
