#pragma once
// Defines the activations of one trainer that are stored elsewhere between forward and backward.
#include <deque>
#include <ikebana/detail/inner_phases.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/offload_memory.hpp>
#include <unordered_map>
#include <vector>

namespace ikebana::detail {

class StoredActivations;

/// Bytes of one storage, in a buffer. Several saved tensors may be views of these bytes, and share
/// this.
struct StoredActivation : std::enable_shared_from_this<StoredActivation> {
  std::shared_ptr<StoredActivations> owner;
  std::unique_ptr<BufferPool::Buffer> buffer;
  std::int64_t size = 0;              ///< bytes
  c10::VariableVersion counter = {};  ///< the version counter of the tensor that was saved first,
  std::uint32_t version = 0;          ///< and its version: the returned tensor has both
  std::size_t section = 0;            ///< the number of the forward that saved the bytes
  at::Tensor on_device = {};          ///< the bytes, on the device, while backward needs them
  bridge::StreamEvent arrived = {};   ///< after this event `on_device` has its values

  StoredActivation(std::shared_ptr<StoredActivations> of,
                   std::unique_ptr<BufferPool::Buffer> memory)
      : owner(std::move(of)), buffer(std::move(memory)) {}
  ~StoredActivation();
  StoredActivation(const StoredActivation&) = delete;
  StoredActivation& operator=(const StoredActivation&) = delete;
};

/// Moves tensors that autograd saves out of the device in forward, and back in backward, once each
/// way. A section of a forward has what it saves within one unit, or between two: if copies overlap
/// with what the device computes, the section before the one that backward needs begins to return.
/// Graphs share ownership of this. Several threads of autograd's engine may call it.
class StoredActivations : public std::enable_shared_from_this<StoredActivations> {
 public:
  using Pointer = std::shared_ptr<StoredActivation>;

  StoredActivations(const bridge::HostCopies& copies, std::shared_ptr<OffloadMemory> memory)
      : copies_(copies), pool_(make_shared_apart<BufferPool>(std::move(memory))) {}

  c10::Device device() const { return copies_.device(); }

  /// Begins a step, and the counts of its traffic.
  void begin_step() noexcept;
  /// Adds its counts to the counts of other parts.
  void end_step(OffloadTraffic& all) noexcept;
  /// Begins a forward, whose tensors are in sections of their own.
  void begin_forward();
  void begin_section();
  /// Ends a forward: what the device computes next waits for all its copies.
  void end_forward() noexcept;
  /// Stores `size` bytes of a tensor's storage, from `first` on, as they are now. Returns the same
  /// object for the same bytes of the same version.
  Pointer add(const at::Tensor& t, std::int64_t first, std::int64_t size);
  /// Returns the bytes on the device, ready for what it computes next.
  at::Tensor get(StoredActivation& one);
  /// Is called if the graph is kept: the bytes need not be on the device until another backward
  /// needs them.
  void release(StoredActivation& one) noexcept;
  void end(StoredActivation& one) noexcept;

 private:
  struct Known {
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
    c10::VariableVersion counter;
    std::uint32_t version;
    std::int64_t first, size;
    std::weak_ptr<StoredActivation> stored;

    /// Compares all members: versions of two counters are unrelated.
    bool is(const Known& other) const;
  };
  struct Source {
    std::size_t section;
    at::Tensor bytes;  // the bytes, kept until the device's stream waits for the copy
    bridge::StreamEvent copied;
  };

  Pointer store(const at::Tensor& t, std::int64_t first, std::int64_t size);
  void begin_to_return(StoredActivation& one);
  /// Begins to return a section. If memory is short, its tensors return when they are needed.
  void return_ahead(std::size_t section) noexcept;
  /// Lets the device's stream wait for the copies of all sections before `section - 1`, so that the
  /// memory of what was copied can be used again.
  void release_sources(std::size_t section);
  static std::uint32_t present(const c10::VariableVersion& counter);
  void wait_for_arrival(StoredActivation& one) noexcept;
  static at::Tensor host_bytes(const BufferPool::Buffer& buffer, std::int64_t size);

  bridge::HostCopies copies_;
  std::shared_ptr<BufferPool> pool_;
  std::unordered_map<const c10::StorageImpl*, std::vector<Known>> known_;  // the known tensors of
                                                                           // this forward
  std::vector<std::vector<std::weak_ptr<StoredActivation>>> sections_;
  std::deque<Source> sources_;
  std::int64_t stored_ = 0;  // bytes
  bool is_forward_ = false;
  OffloadTraffic traffic_;
  std::recursive_mutex mutex_;  // recursive, since what it frees may call it again
};

inline StoredActivation::~StoredActivation() { owner->end(*this); }

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/offload/impl/stored_activations.ipp>
#endif
