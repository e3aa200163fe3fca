#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/detail/without_values.hpp>
#include <ikebana/error.hpp>
#include <ikebana/offload/offload_memory.hpp>

namespace ikebana::detail {

IKEBANA_INLINE at::Tensor HostMemory::allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                                               at::ScalarType type) {
  return copies_.host_memory(sizes, strides, type);
}

IKEBANA_INLINE BufferPool::Buffer::~Buffer() {
  if (auto own = pool.lock()) own->take_back(*this);
  else last_use.synchronize_quietly();
}

IKEBANA_INLINE std::unique_ptr<BufferPool::Buffer> BufferPool::take(std::int64_t size) {
  const std::lock_guard lock(mutex_);
  auto found = free_.lower_bound(size);
  const bool fits = found != free_.end() && found->first <= size + size / 8;
  if (!fits && bounded_) make_room(size);
  auto buffer = std::make_unique<Buffer>(
      this->weak_from_this(),
      fits ? found->second.bytes : memory_->allocate({size}, {1}, at::kByte));
  if (fits) {
    buffer->last_use = std::move(found->second.last_use);
    free_.erase(found);
  }
  return buffer;
}

IKEBANA_INLINE void BufferPool::free_unused() noexcept {
  const std::lock_guard lock(mutex_);
  for (auto at = free_.begin(); at != free_.end();) {
    if (!std::exchange(at->second.is_unused, true)) ++at;
    else at->second.last_use.synchronize_quietly(), at = free_.erase(at);
  }
}

IKEBANA_INLINE std::int64_t BufferPool::free_bytes() const {
  const std::lock_guard lock(mutex_);
  std::int64_t bytes = 0;
  for (const auto& [size, buffer] : free_) bytes += size;
  return bytes;
}

IKEBANA_INLINE void BufferPool::make_room(std::int64_t size) {
  for (std::int64_t freed = 0; freed < size && !free_.empty();) {
    const auto largest = std::prev(free_.end());
    largest->second.last_use.synchronize_quietly();
    freed += largest->first;
    free_.erase(largest);
  }
}

IKEBANA_INLINE void BufferPool::take_back(Buffer& buffer) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    const std::int64_t size = buffer.bytes.numel();
    free_.emplace(size, Free{std::move(buffer.bytes), std::move(buffer.last_use)});
  } catch (...) {  // there is no memory for the list, so the buffer is freed
    buffer.last_use.synchronize_quietly();
  }
}

IKEBANA_INLINE FileMemory::FileMemory(std::filesystem::path folder) : folder_(std::move(folder)) {
  if (folder_.empty())
    throw BadValue(
        "Offload<Disk>: no folder is named. Write a folder on a disk with room for what is "
        "offloaded: Offload<Disk>{.folder = \"/scratch\"}.");
  if (!without_values()) new_file(MappedFile::page_bytes());  // throws if the folder cannot be used
}

IKEBANA_INLINE at::Tensor FileMemory::allocate(at::IntArrayRef sizes, at::IntArrayRef strides,
                                               at::ScalarType type) {
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

IKEBANA_INLINE void FileMemory::reserve(const at::Tensor& like) {
  if (without_values()) return;
  const std::size_t bytes = space_of(like.sizes(), like.strides(), like.scalar_type());
  const std::lock_guard lock(mutex_);
  reserved_.emplace(bytes, new_space(bytes));
}

IKEBANA_INLINE void FileMemory::check_process() const {
  if (!without_values() && process_.is_inherited())
    throw Error(
        "Offload<Disk>: its files are those of the process that this one was forked from, which "
        "may write to them. Make a trainer in this process, or fork before it is made.");
}

IKEBANA_INLINE void FileMemory::release_pages(const at::Tensor& t) noexcept {
  advise(t, &MappedFile::release_pages);
}

IKEBANA_INLINE void FileMemory::prefetch_pages(const at::Tensor& t) noexcept {
  advise(t, &MappedFile::prefetch_pages);
}

IKEBANA_INLINE void FileMemory::populate_pages(const at::Tensor& t, bool writes) noexcept {
  advise(t, writes ? &MappedFile::populate_to_write : &MappedFile::populate_to_read);
}

IKEBANA_INLINE std::size_t FileMemory::space_of(at::IntArrayRef sizes, at::IntArrayRef strides,
                                                at::ScalarType type) {
  const auto bytes = at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type));
  return whole_pages(std::max<std::size_t>(bytes, 1));
}

IKEBANA_INLINE FileMemory::Space FileMemory::new_space(std::size_t bytes) {
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

IKEBANA_INLINE std::size_t FileMemory::whole_pages(std::size_t bytes) noexcept {
  const auto page = MappedFile::page_bytes();
  return (bytes + page - 1) / page * page;
}

IKEBANA_INLINE void FileMemory::advise(const at::Tensor& t,
                                       void (*advice)(void*, std::size_t) noexcept) const noexcept {
  if (!t.defined() || !t.is_cpu() || !t.has_storage() || t.storage().nbytes() == 0) return;
  if (without_values()) return;
  void* memory = t.storage().mutable_data();
  const std::lock_guard lock(mutex_);
  for (const auto& weak : files_)
    if (const auto file = weak.lock(); file && file->has(memory))
      return advice(memory, whole_pages(t.storage().nbytes()));
}

IKEBANA_INLINE std::shared_ptr<MappedFile> FileMemory::new_file(std::size_t bytes) {
  std::erase_if(files_, [](const auto& file) { return file.expired(); });
  files_.reserve(files_.size() + 1);
  auto file = make_shared_apart<MappedFile>(folder_, bytes);
  files_.push_back(file);
  return file;
}

}  // namespace ikebana::detail
