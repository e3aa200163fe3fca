#pragma once
// Defines pools of an accelerator's caching allocator, through the interface of CUDA's allocator.
// CUDA's headers are not included. A program that includes them passes the allocator.
#include <atomic>
#include <cstdint>
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/error.hpp>
#include <memory>
#include <string>
#include <thread>
#include <utility>

namespace ikebana {

namespace detail {

/// Returns true on the thread that made it, for any stream.
struct OnThread {
  std::thread::id thread = std::this_thread::get_id();
  template <class... Stream>
  bool operator()(const Stream&...) const {
    return std::this_thread::get_id() == thread;
  }
};
/// Records whether a scope is open. Its address is the name of the pool, which no other pool may
/// have while a scope is open.
struct DevicePoolState {
  std::atomic<bool> in_use{false};
};

}  // namespace detail

/// An allocator with pools, such as `c10::cuda::CUDACachingAllocator::CUDAAllocator`.
template <class Allocator>
concept HasMemPools = requires(Allocator& allocator, c10::DeviceIndex device, c10::MempoolId_t id) {
  allocator.createOrIncrefPool(device, id);
  allocator.beginAllocateToPool(device, id, detail::OnThread());
  allocator.endAllocateToPool(device, id);
  allocator.releasePool(device, id);
  allocator.emptyCache(id);
};

/// A pool of an accelerator's caching allocator, for one device; the counterpart of Python's
/// `torch.cuda.MemPool`. Memory of the pool serves no tensor outside of it. When the pool is
/// destroyed, the allocator releases what no tensor uses; until then CUDA's allocator keeps all of
/// it.
///
///     DeviceMemPool pool(*c10::cuda::CUDACachingAllocator::get(), device);
///     UseDeviceMemPool use(pool);
///
/// `allocator` must outlive it and its scopes. Throws BadValue for a CPU, and what the allocator
/// throws.
template <class Allocator>
class DeviceMemPool {
  static_assert(HasMemPools<Allocator>,
                "ikebana: this allocator has no pools, or is not known as one that has. Pass "
                "`*c10::cuda::CUDACachingAllocator::get()`, of <c10/cuda/CUDACachingAllocator.h>, "
                "and leave pools out where LibTorch's allocator of the device has none.");

 public:
  /// Makes an empty pool of `allocator` for one device.
  DeviceMemPool(Allocator& allocator, c10::Device device)
      : allocator_(allocator), device_(checked(device)) {
    allocator_.createOrIncrefPool(device_.index(), id());
  }
  ~DeviceMemPool() {
    allocator_.releasePool(device_.index(), id());
    allocator_.emptyCache(id());
  }
  DeviceMemPool(const DeviceMemPool&) = delete;
  DeviceMemPool& operator=(const DeviceMemPool&) = delete;

  /// Returns the device, with its index.
  c10::Device device() const { return device_; }
  /// Returns the name of the pool in the allocator. Pools that LibTorch makes count from 0.
  c10::MempoolId_t id() const {
    return {0, (c10::CaptureId_t{1} << 63) | reinterpret_cast<std::uintptr_t>(state_.get())};
  }

 private:
  template <class>
  friend class UseDeviceMemPool;
  static c10::Device checked(c10::Device device) {
    if (!device.is_cpu()) return bridge::with_index(device);
    throw BadValue(
        "DeviceMemPool: it is for an accelerator, and the device is cpu. Use a MemPool "
        "(ikebana/memory/pool.hpp).");
  }

  Allocator& allocator_;
  c10::Device device_;
  std::shared_ptr<detail::DevicePoolState> state_ =
      detail::make_shared_apart<detail::DevicePoolState>();
};

/// RAII: what this thread allocates on the pool's device comes from the pool, as under
/// `torch.cuda.use_mem_pool`. Backward runs on LibTorch's own thread for each accelerator, and
/// allocates there, outside of the scope. May be destroyed on another thread, and after the pool.
/// Throws Error if a scope of this pool is open already, which allocators do not support, and
/// BadValue for another device than the pool's.
template <class Allocator>
class UseDeviceMemPool {
 public:
  /// Opens the scope on this thread.
  explicit UseDeviceMemPool(DeviceMemPool<Allocator>& pool)
      : allocator_(pool.allocator_), device_(pool.device()), id_(pool.id()), state_(pool.state_) {
    if (state_->in_use.exchange(true))
      throw Error(
          "UseDeviceMemPool: a scope of this pool is open, and an allocator of CUDA takes one "
          "for each pool. Close it first, or use a pool for each thread.");
    try {
      allocator_.beginAllocateToPool(device_.index(), id_, detail::OnThread());
    } catch (...) {
      state_->in_use = false;
      throw;
    }
  }
  /// Opens the scope for tensors of `device`.
  UseDeviceMemPool(DeviceMemPool<Allocator>& pool, c10::Device device)
      : UseDeviceMemPool(of_device(pool, device)) {}
  ~UseDeviceMemPool() {
    allocator_.endAllocateToPool(device_.index(), id_);
    allocator_.releasePool(device_.index(), id_);  // `begin` counted this use
    state_->in_use = false;
  }
  UseDeviceMemPool(const UseDeviceMemPool&) = delete;
  UseDeviceMemPool& operator=(const UseDeviceMemPool&) = delete;

 private:
  static DeviceMemPool<Allocator>& of_device(DeviceMemPool<Allocator>& pool, c10::Device device) {
    if (bridge::with_index(device) == pool.device()) return pool;
    throw BadValue("UseDeviceMemPool: the pool is of " + pool.device().str() +
                   ", and the scope is for " + device.str() + ". Make a pool of that device.");
  }

  Allocator& allocator_;
  c10::Device device_;
  c10::MempoolId_t id_;
  std::shared_ptr<detail::DevicePoolState> state_;
};

}  // namespace ikebana
