#pragma once
// Tensors in files without a name, whose pages leave memory when they are not needed.
#include <ikebana/detail/tensor_over.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/error.hpp>
#include <ikebana/offload/offload_memory.hpp>
#include <ikebana/posix/mapped_file.hpp>
#include <ikebana/posix/process.hpp>
#include <map>

namespace ikebana::detail {

/// Memory in files of a folder. Each tensor begins at a page of its own, and keeps its file as long
/// as it exists: one of its own where it is large, else one with others, of `first_bytes` or of
/// twice as many as the last one, up to `file_bytes`.
template <class = void>
class FileMemory final : public OffloadMemory {
 public:
  static constexpr std::size_t first_bytes = std::size_t(1) << 20, file_bytes = std::size_t(64)
                                                                                << 20;

  /// Throws BadValue for no folder or one in memory, FileFailed for one that cannot be written.
  explicit FileMemory(std::filesystem::path folder) : folder_(std::move(folder)) {
    if (folder_.empty())
      throw BadValue(
          "Offload<Disk>: no folder is named. Write a folder on a disk with room for what is "
          "offloaded: Offload<Disk>{.folder = \"/scratch\"}.");
    if (!without_values()) new_file(MappedFile<>::page_bytes());  // tells whether it can
  }

  at::Tensor allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                      at::ScalarType type) override {
    if (without_values()) {
      const MadeInFileScope in_file;
      return at::empty_strided(sizes, strides, at::TensorOptions(at::kCPU).dtype(type));
    }
    const std::size_t bytes = space_of(sizes, strides, type);
    const std::lock_guard lock(mutex_);
    Space space;
    if (auto found = reserved_.find(bytes); found != reserved_.end())
      space = std::move(found->second), reserved_.erase(found);
    else space = new_space(bytes);
    return tensor_over(space.memory, sizes, strides, type, std::move(space.file));
  }
  void reserve(const at::Tensor& like) override {
    if (without_values()) return;
    const std::size_t bytes = space_of(like.sizes(), like.strides(), like.scalar_type());
    const std::lock_guard lock(mutex_);
    reserved_.emplace(bytes, new_space(bytes));
  }
  /// A child sees what its parent writes to a file later.
  void check_process() const override {
    if (!without_values() && process_.is_inherited())
      throw Error(
          "Offload<Disk>: its files are those of the process that this one was forked from, which "
          "may write to them. Make a trainer in this process, or fork before it is made.");
  }
  // Of tensors that lie elsewhere these do nothing.
  void release_pages(const at::Tensor& t) noexcept override {
    advise(t, &MappedFile<>::release_pages);
  }
  void prefetch_pages(const at::Tensor& t) noexcept override {
    advise(t, &MappedFile<>::prefetch_pages);
  }
  void populate_pages(const at::Tensor& t, bool writes) noexcept override {
    advise(t, writes ? &MappedFile<>::populate_to_write : &MappedFile<>::populate_to_read);
  }

 private:
  struct Space {
    std::byte* memory = nullptr;
    std::shared_ptr<MappedFile<>> file = {};
  };

  static std::size_t space_of(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type) {
    const auto bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
    return whole_pages(std::max<std::size_t>(bytes, 1));
  }
  Space new_space(std::size_t bytes) {
    if (bytes > file_bytes / 2) {
      auto own = new_file(bytes);
      return {own->data(), own};
    }
    if (!file_ || file_->size() - used_ < bytes) {
      while (next_ < 2 * bytes) next_ *= 2;
      file_ = new_file(next_), used_ = 0;
      next_ = std::min(2 * next_, file_bytes);
    }
    return {file_->data() + std::exchange(used_, used_ + bytes), file_};
  }
  static std::size_t whole_pages(std::size_t bytes) noexcept {
    const auto page = MappedFile<>::page_bytes();
    return (bytes + page - 1) / page * page;
  }
  void advise(const at::Tensor& t, void (*advice)(void*, std::size_t) noexcept) const noexcept {
    if (!t.defined() || !t.is_cpu() || !t.has_storage() || t.storage().nbytes() == 0) return;
    if (without_values()) return;
    void* memory = t.storage().mutable_data();
    const std::lock_guard lock(mutex_);
    for (const auto& weak : files_)
      if (const auto file = weak.lock(); file && file->has(memory))
        return advice(memory, whole_pages(t.storage().nbytes()));
  }
  std::shared_ptr<MappedFile<>> new_file(std::size_t bytes) {
    std::erase_if(files_, [](const auto& file) { return file.expired(); });
    files_.reserve(files_.size() + 1);
    auto file = std::make_shared<MappedFile<>>(folder_, bytes);
    files_.push_back(file);
    return file;
  }

  std::filesystem::path folder_;
  std::shared_ptr<MappedFile<>> file_;              // of the next small tensor
  std::vector<std::weak_ptr<MappedFile<>>> files_;  // that tensors keep
  std::multimap<std::size_t, Space> reserved_;      // by bytes: for tensors to come
  mutable std::mutex mutex_;
  std::size_t used_ = 0;  // bytes of it
  std::size_t next_ = first_bytes;
  OwnProcess process_;
};

}  // namespace ikebana::detail
