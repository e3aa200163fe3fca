#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/fake/fake_tensors.hpp>

namespace ikebana::bridge::detail {

IKEBANA_INLINE void FakeBlock::free(void* block) noexcept {
  auto* own = static_cast<FakeBlock*>(block);
  own->memory->freed(own->number);
  delete own;
}

IKEBANA_INLINE void CountedBlock::free(void* block) noexcept {
  auto* own = static_cast<CountedBlock*>(block);
  own->memory->freed(own->number);
  delete own;
}

IKEBANA_INLINE const c10::DataPtr& data_of(const at::Tensor& t) {
  return t.storage().unsafeGetStorageImpl()->_mutable_data_ptr_no_checks();
}

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

IKEBANA_INLINE bool is_fake(const at::Tensor& t) {
  return t.has_storage() && detail::data_of(t).get_deleter() == &detail::FakeBlock::free;
}

IKEBANA_INLINE bool is_counted(const at::Tensor& t) {
  return is_fake(t) ||
         (t.has_storage() && detail::data_of(t).get_deleter() == &detail::CountedBlock::free);
}

}  // namespace ikebana::bridge

namespace ikebana::bridge::detail {

inline c10::Storage storage_of_block(std::shared_ptr<FakeMemory> memory, std::size_t bytes,
                                     c10::Device device) {
  const std::size_t number = memory->allocated(bytes, device);
  auto* block = new FakeBlock{std::move(memory), number};
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      at::DataPtr(block->value, block, &FakeBlock::free, device), /*allocator=*/nullptr,
      /*resizable=*/false));
}

}  // namespace ikebana::bridge::detail

namespace ikebana::bridge {

IKEBANA_INLINE c10::Storage fake_storage(std::shared_ptr<FakeMemory> memory, std::size_t bytes,
                                         c10::Device device, const std::string& error) {
  c10::Storage storage = detail::storage_of_block(std::move(memory), bytes, device);
  ikebana::detail::set_error(storage, error);
  return storage;
}

IKEBANA_INLINE c10::Storage fake_number(std::shared_ptr<FakeMemory> memory, at::ScalarType type,
                                        c10::Device device, std::size_t bytes) {
  c10::Storage storage = detail::storage_of_block(std::move(memory), bytes, device);
  at::AutoDispatchBelowADInplaceOrView below;
  ikebana::detail::tensor_on(storage, {}, {}, 0, type).fill_(1);
  return storage;
}

IKEBANA_INLINE void count_memory(const c10::Storage& storage,
                                 const std::shared_ptr<FakeMemory>& memory) {
  auto* impl = storage.unsafeGetStorageImpl();
  at::DataPtr& data = impl->_mutable_data_ptr_no_checks();
  if (data.get() == nullptr || data.get_deleter() == &detail::CountedBlock::free) return;
  void* const begin = data.get();
  const c10::Device device = data.device();
  const std::size_t number = memory->allocated(impl->nbytes(), device);
  auto* block = new detail::CountedBlock{memory, number, std::move(data)};
  impl->set_data_ptr_noswap(at::DataPtr(begin, block, &detail::CountedBlock::free, device));
}

IKEBANA_INLINE StorageSizes::StorageSizes(c10::ArrayRef<c10::IValue> values) {
  ikebana::detail::visit_all(values, [&](const at::Tensor& t) {
    if (t.has_storage()) known_.emplace_back(ikebana::detail::key_of(t), t.storage().nbytes());
  });
}

IKEBANA_INLINE void StorageSizes::count_new(c10::ArrayRef<c10::IValue> results,
                                            const std::shared_ptr<FakeMemory>& memory) const {
  ikebana::detail::visit_all(results, [&](const at::Tensor& t) {
    if (!t.has_storage() || is_fake(t)) return;
    const std::pair now(ikebana::detail::key_of(t), t.storage().nbytes());
    if (!std::count(known_.begin(), known_.end(), now)) count_memory(t.storage(), memory);
  });
}

IKEBANA_INLINE at::Tensor FakeTensors::make(at::IntArrayRef sizes, at::ScalarType type,
                                            c10::Device device) {
  return make(sizes, c10::contiguous_strides(sizes), type, device);
}

IKEBANA_INLINE at::Tensor FakeTensors::make(at::IntArrayRef sizes, at::IntArrayRef strides,
                                            at::ScalarType type, c10::Device device,
                                            std::size_t at_least) {
  const std::size_t bytes =
      std::max(at_least, at::detail::computeStorageNbytes(sizes, strides, c10::elementSize(type)));
  const bool is_number = device.is_cpu() && c10::multiply_integers(sizes) == 1;
  return ikebana::detail::tensor_on(is_number ? fake_number(memory_, type, device, bytes)
                                              : fake_storage(memory_, bytes, device, no_values),
                                    sizes, strides, 0, type);
}

IKEBANA_INLINE void FakeTensors::use(std::int64_t bytes) {
  if (bytes > 0) memory_->freed(memory_->allocated(static_cast<std::size_t>(bytes), at::kCPU));
}

}  // namespace ikebana::bridge
