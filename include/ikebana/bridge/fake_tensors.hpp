#pragma once
// Tensors that have a shape, a dtype and a device, and no memory: what a training would allocate is
// counted without allocating it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <ikebana/detail/tensor_values.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// Counts the memory that fake tensors stand for. Tensors keep it alive.
class FakeMemory {
 public:
  virtual ~FakeMemory() = default;
  /// A storage of so many bytes is made; returns a number for it.
  virtual std::size_t allocated(std::size_t bytes, c10::Device device) = 0;
  /// The last tensor that uses this storage was destroyed.
  virtual void freed(std::size_t number) noexcept = 0;
};

namespace detail {

/// What the data pointer of a fake storage owns. `value` is that of a fake tensor of one element,
/// which the host may read.
struct FakeBlock {
  std::shared_ptr<FakeMemory> memory;
  std::size_t number;
  alignas(16) std::byte value[16] = {};

  static void free(void* block) noexcept {
    auto* own = static_cast<FakeBlock*>(block);
    own->memory->freed(own->number);
    delete own;
  }
};

/// What the data pointer of a storage with memory owns, so that it is counted, too.
struct CountedBlock {
  std::shared_ptr<FakeMemory> memory;
  std::size_t number;
  at::DataPtr data;

  static void free(void* block) noexcept {
    auto* own = static_cast<CountedBlock*>(block);
    own->memory->freed(own->number);
    delete own;
  }
};

inline const c10::DataPtr& data_of(const at::Tensor& t) {
  return t.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
}

}  // namespace detail

/// True of a tensor whose values are not known: it has no memory, or one element that stands for
/// any.
inline bool is_fake(const at::Tensor& t) {
  return t.has_storage() && detail::data_of(t).get_deleter() == &detail::FakeBlock::free;
}

/// True of a tensor that a FakeMemory counts: a fake one, or a small one with memory that was made
/// among them.
inline bool is_counted(const at::Tensor& t) {
  return is_fake(t) ||
         (t.has_storage() && detail::data_of(t).get_deleter() == &detail::CountedBlock::free);
}

namespace detail {
inline c10::Storage storage_of_block(std::shared_ptr<FakeMemory> memory, std::size_t bytes,
                                     c10::Device device) {
  const std::size_t number = memory->allocated(bytes, device);
  auto* block = new FakeBlock{std::move(memory), number};
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      at::DataPtr(block->value, block, &FakeBlock::free, device), /*allocator=*/nullptr,
      /*resizable=*/false));
}
}  // namespace detail

/// A storage on `device` of so many bytes, without memory. Whatever reads or writes it throws
/// c10::Error with `error`.
inline c10::Storage fake_storage(std::shared_ptr<FakeMemory> memory, std::size_t bytes,
                                 c10::Device device, const std::string& error) {
  c10::Storage storage = detail::storage_of_block(std::move(memory), bytes, device);
  ikebana::detail::set_error(storage, error);
  return storage;
}

/// A storage of so many bytes for one element of this dtype that the host may read: 1 in every
/// dtype. It stands for a number that is not known, such as a loss; counts of it are above 0, and
/// it is finite.
inline c10::Storage fake_number(std::shared_ptr<FakeMemory> memory, at::ScalarType type,
                                c10::Device device, std::size_t bytes) {
  c10::Storage storage = detail::storage_of_block(std::move(memory), bytes, device);
  at::AutoDispatchBelowADInplaceOrView below;
  ikebana::detail::tensor_on(storage, {}, {}, 0, type).fill_(1);
  return storage;
}

/// Counts a storage that has memory until that is freed.
inline void count_memory(const c10::Storage& storage, const std::shared_ptr<FakeMemory>& memory) {
  auto* impl = storage.unsafeGetStorageImpl();
  at::DataPtr& data = impl->_mutable_data_ptr_no_checks();
  if (data.get() == nullptr || data.get_deleter() == &detail::CountedBlock::free) return;
  void* const begin = data.get();
  const c10::Device device = data.device();
  const std::size_t number = memory->allocated(impl->nbytes(), device);
  auto* block = new detail::CountedBlock{memory, number, std::move(data)};
  impl->set_data_ptr_noswap(at::DataPtr(begin, block, &detail::CountedBlock::free, device));
}

/// The memory that arguments have, and how much.
class StorageSizes {
 public:
  explicit StorageSizes(c10::ArrayRef<c10::IValue> values) {
    ikebana::detail::visit_all(values, [&](const at::Tensor& t) {
      if (t.has_storage()) known_.emplace_back(ikebana::detail::key_of(t), t.storage().nbytes());
    });
  }
  /// Counts memory that a kernel allocated since, also for an argument that grew.
  void count_new(c10::ArrayRef<c10::IValue> results,
                 const std::shared_ptr<FakeMemory>& memory) const {
    ikebana::detail::visit_all(results, [&](const at::Tensor& t) {
      if (!t.has_storage() || is_fake(t)) return;
      const std::pair now(ikebana::detail::key_of(t), t.storage().nbytes());
      if (!std::count(known_.begin(), known_.end(), now)) count_memory(t.storage(), memory);
    });
  }

 private:
  std::vector<std::pair<c10::StorageImpl*, std::size_t>> known_;
};

}  // namespace ikebana::bridge
