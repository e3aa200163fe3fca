#pragma once
// The activations of one trainer that lie elsewhere between forward and backward.
#include <cstring>
#include <deque>
#include <ikebana/detail/tensor_values.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/offload_memory.hpp>
#include <optional>
#include <unordered_map>
#include <vector>

namespace ikebana::detail {

template <class = void>
class StoredActivations;

/// Bytes of one storage, in a buffer. Several saved tensors may be views of them, and keep it.
template <class Owner = StoredActivations<>>
struct StoredActivation : std::enable_shared_from_this<StoredActivation<Owner>> {
  std::shared_ptr<Owner> owner;
  std::unique_ptr<BufferPool<>::Buffer> buffer;
  std::int64_t size = 0;              ///< bytes
  c10::VariableVersion counter = {};  ///< of the tensor that was saved first, and
  std::uint32_t version = 0;          ///< its version: what has come back has both, too
  std::size_t section = 0;            ///< of the forward that saved them
  at::Tensor on_device = {};          ///< the bytes, on the device, while backward needs them
  bridge::StreamEvent arrived = {};   ///< then `on_device` has its values

  StoredActivation(std::shared_ptr<Owner> of, std::unique_ptr<BufferPool<>::Buffer> memory)
      : owner(std::move(of)), buffer(std::move(memory)) {}
  ~StoredActivation() { owner->end(*this); }
  StoredActivation(const StoredActivation&) = delete;
  StoredActivation& operator=(const StoredActivation&) = delete;
};

/// Moves what autograd saves out of the device in forward, and back in backward, once each way.
/// Sections of a forward are what it saves within one unit, or between two: where copies overlap
/// with what the device computes, the section before the one that backward needs begins to return.
/// Graphs share ownership of this. May be called by several threads of autograd's engine.
template <class>
class StoredActivations : public std::enable_shared_from_this<StoredActivations<>> {
 public:
  using Pointer = std::shared_ptr<StoredActivation<>>;

  StoredActivations(const bridge::HostCopies<>& copies, std::shared_ptr<OffloadMemory> memory)
      : copies_(copies), pool_(std::make_shared<BufferPool<>>(std::move(memory))) {}

  c10::Device device() const { return copies_.device(); }

  /// A step begins: counts anew.
  void begin_step() noexcept {
    const std::lock_guard lock(mutex_);
    traffic_ = {};
    traffic_.peak_stored = stored_;
  }
  /// Adds what was counted to that of other parts.
  void end_step(OffloadTraffic& all) noexcept {
    pool_->free_unused();
    const std::lock_guard lock(mutex_);
    all.activations_out = traffic_.activations_out,
    all.activations_back = traffic_.activations_back;
    all.copies_out += traffic_.copies_out, all.copies_back += traffic_.copies_back;
    all.peak_stored = traffic_.peak_stored;
  }
  /// A forward begins; what it saves is in sections of its own.
  void begin_forward() {
    pool_->memory().check_process();
    const std::lock_guard lock(mutex_);
    sections_.clear(), known_.clear();
    sections_.emplace_back();
    is_forward_ = true;
  }
  void begin_section() {
    const std::lock_guard lock(mutex_);
    if (sections_.empty() || !sections_.back().empty()) sections_.emplace_back();
    release_sources(sections_.size() - 1);
  }
  /// What the device computes next comes after all copies of the forward.
  void end_forward() noexcept {
    const std::lock_guard lock(mutex_);
    known_.clear();
    is_forward_ = false;
    try {
      release_sources(sections_.size() + 1);
    } catch (...) {  // of a device that cannot be used any more
      sources_.clear();
    }
  }
  /// `size` bytes of a tensor's storage, from `first` on, as they are now. For the same bytes of
  /// the same version it returns the same.
  Pointer add(const at::Tensor& t, std::int64_t first, std::int64_t size) {
    const std::lock_guard lock(mutex_);
    auto& all = known_[t.storage().unsafeGetStorageImpl()];
    const c10::VariableVersion& counter = t.unsafeGetTensorImpl()->version_counter();
    Known known{t.storage().getWeakStorageImpl(), counter, present(counter), first, size, {}};
    for (const Known& other : all)
      if (other.is(known))
        if (Pointer one = other.stored.lock()) return one;
    Pointer one = store(t, first, size);
    known.stored = one;
    all.push_back(std::move(known));
    sections_.back().push_back(one);
    return one;
  }
  /// The bytes on the device, as what it computes next can use them.
  at::Tensor get(StoredActivation<>& one) {
    const std::lock_guard lock(mutex_);
    begin_to_return(one);
    copies_.wait_for(one.arrived);
    if (copies_.overlap() && one.section > 0) return_ahead(one.section - 1);
    return one.on_device;
  }
  /// The graph is kept: until another backward needs them, the bytes need not be on the device.
  void release(StoredActivation<>& one) noexcept {
    const std::lock_guard lock(mutex_);
    wait_for_arrival(one);
    one.on_device.reset();
  }
  void end(StoredActivation<>& one) noexcept {
    const std::lock_guard lock(mutex_);
    wait_for_arrival(one);
    stored_ -= one.size;
  }

 private:
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    c10::VariableVersion counter;
    std::uint32_t version;
    std::int64_t first, size;
    std::weak_ptr<StoredActivation<>> stored;

    /// Versions of two counters say nothing of each other.
    bool is(const Known& other) const {
      static_assert(sizeof(c10::VariableVersion) == sizeof(void*));
      const bool same_counter =
          std::memcmp(static_cast<const void*>(&counter), &other.counter, sizeof counter) == 0;
      return same_counter && version == other.version && first == other.first &&
             size == other.size && storage.use_count() > 0;
    }
  };
  struct Source {
    std::size_t section;
    at::Tensor bytes;  // kept until the device's stream waits for the copy
    bridge::StreamEvent copied;
  };

  Pointer store(const at::Tensor& t, std::int64_t first, std::int64_t size) {
    auto one = std::make_shared<StoredActivation<>>(this->shared_from_this(), pool_->take(size));
    one->counter = t.unsafeGetTensorImpl()->version_counter();
    one->version = present(one->counter);
    one->section = sections_.size() - 1;
    const at::Tensor source = tensor_on(t.storage(), {size}, {1}, first, at::kByte);
    if (copies_.overlap()) sources_.push_back({one->section, source, {}});
    auto& buffer = *one->buffer;
    buffer.last_use = copies_.to_host(host_bytes(buffer, size), source, buffer.last_use);
    if (copies_.overlap()) sources_.back().copied = buffer.last_use;
    pool_->memory().release_pages(buffer.bytes);
    one->size = size, stored_ += size;
    traffic_.peak_stored = std::max(traffic_.peak_stored, stored_);
    traffic_.activations_out += size, ++traffic_.copies_out;
    return one;
  }
  void begin_to_return(StoredActivation<>& one) {
    if (one.on_device.defined()) return;
    auto& buffer = *one.buffer;
    at::Tensor on_device = at::empty({one.size}, at::TensorOptions(device()).dtype(at::kByte));
    one.arrived = buffer.last_use =
        copies_.to_device(on_device, host_bytes(buffer, one.size), buffer.last_use);
    pool_->memory().release_pages(buffer.bytes);
    if (is_forward_)  // a backward within the loss
      known_[on_device.storage().unsafeGetStorageImpl()].push_back(
          {on_device.storage().getWeakStorageImpl(), one.counter, one.version, 0, one.size,
           one.weak_from_this()});
    one.on_device = std::move(on_device);
    traffic_.activations_back += one.size, ++traffic_.copies_back;
  }
  /// Where memory is short, they return when they are needed.
  void return_ahead(std::size_t section) noexcept {
    try {
      for (const auto& weak : sections_.at(section))
        if (const Pointer one = weak.lock()) begin_to_return(*one);
    } catch (...) {
    }
  }
  /// What the device computes next comes after the copies of sections before this one but one, so
  /// that the memory of what was copied can be used again.
  void release_sources(std::size_t section) {
    while (!sources_.empty() && sources_.front().section + 1 < section) {
      copies_.wait_for(sources_.front().copied);
      sources_.pop_front();
    }
  }
  static std::uint32_t present(const c10::VariableVersion& counter) {
    return counter.enabled() ? counter.current_version() : 0;
  }
  void wait_for_arrival(StoredActivation<>& one) noexcept {
    if (one.on_device.defined()) copies_.wait_for_quietly(one.arrived);
  }
  static at::Tensor host_bytes(const BufferPool<>::Buffer& buffer, std::int64_t size) {
    return buffer.bytes.narrow(0, 0, size);
  }

  bridge::HostCopies<> copies_;
  std::shared_ptr<BufferPool<>> pool_;
  std::unordered_map<const c10::StorageImpl*, std::vector<Known>> known_;  // of this forward
  std::vector<std::vector<std::weak_ptr<StoredActivation<>>>> sections_;
  std::deque<Source> sources_;
  std::int64_t stored_ = 0;  // bytes
  bool is_forward_ = false;
  OffloadTraffic traffic_;
  std::recursive_mutex mutex_;  // what it frees may come back to it
};

}  // namespace ikebana::detail
