#pragma once
// Tensors that have a shape, a dtype and a device, and no memory: what a training would allocate is
// counted without allocating it.
#include <cstddef>
#include <ikebana/detail/torch.hpp>
#include <memory>
#include <utility>
#include <vector>

namespace ikebana::bridge {

/// Counts the memory that fake tensors stand for. Tensors keep it alive.
class FakeMemory {
 public:
  virtual ~FakeMemory() = default;
  /// A storage of so many bytes was made. Returns a number for it.
  virtual std::size_t allocated(std::size_t bytes, c10::Device device) = 0;
  /// The last tensor that uses this storage was destroyed.
  virtual void freed(std::size_t number) noexcept = 0;
};

namespace detail {

/// Owned by the data pointer of a fake storage. `value` is the value of a fake tensor of one
/// element, which the host may read.
struct FakeBlock {
  std::shared_ptr<FakeMemory> memory;
  std::size_t number;
  alignas(16) std::byte value[16] = {};

  static void free(void* block) noexcept;
};

/// Owned by the data pointer of a storage with memory, so that it is counted, too.
struct CountedBlock {
  std::shared_ptr<FakeMemory> memory;
  std::size_t number;
  at::DataPtr data;

  static void free(void* block) noexcept;
};

const c10::DataPtr& data_of(const at::Tensor& t);

}  // namespace detail

/// Returns true for a tensor whose values are not known: it has no memory, or one element that
/// stands for any value.
bool is_fake(const at::Tensor& t);

/// Returns true for a tensor that a FakeMemory counts: a fake one, or a small one with memory that
/// was made while the mode was open.
bool is_counted(const at::Tensor& t);

/// Returns a storage on `device` of so many bytes, without memory. Code that reads or writes it
/// gets c10::Error with `error`.
c10::Storage fake_storage(std::shared_ptr<FakeMemory> memory, std::size_t bytes, c10::Device device,
                          const std::string& error);

/// Returns a storage of so many bytes for one element of this dtype that the host may read. Its
/// value is 1, which stands for a number that is not known, such as a loss: it is finite, and a
/// count of it is above 0.
c10::Storage fake_number(std::shared_ptr<FakeMemory> memory, at::ScalarType type,
                         c10::Device device, std::size_t bytes);

/// Counts a storage with memory until the memory is freed.
void count_memory(const c10::Storage& storage, const std::shared_ptr<FakeMemory>& memory);

/// The storages of an operator's arguments and their sizes before the call.
class StorageSizes {
 public:
  explicit StorageSizes(c10::ArrayRef<c10::IValue> values);
  /// Counts memory that the kernel has allocated since, also for an argument that grew.
  void count_new(c10::ArrayRef<c10::IValue> results,
                 const std::shared_ptr<FakeMemory>& memory) const;

 private:
  std::vector<std::pair<c10::StorageImpl*, std::size_t>> known_;
};

/// Makes fake tensors of a FakeMemory.
class FakeTensors {
 public:
  explicit FakeTensors(std::shared_ptr<FakeMemory> memory) : memory_(std::move(memory)) {}

  /// Returns a fake tensor on `device`, which is contiguous or has the strides. Its memory has at
  /// least `at_least` bytes.
  at::Tensor make(at::IntArrayRef sizes, at::ScalarType type, c10::Device device);
  at::Tensor make(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type,
                  c10::Device device, std::size_t at_least = 0);

 protected:
  static constexpr const char* no_values =
      "a tensor without memory was read: this computation only finds out how much memory it would "
      "take. Give it a batch of real tensors, which measures instead.";

  /// Counts memory that an operator allocates besides its results, and frees before it returns.
  void use(std::int64_t bytes);

  std::shared_ptr<FakeMemory> memory_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/fake/impl/fake_tensors.ipp>
#endif
