#pragma once
// Moves gradients from the device to the master weights.
#include <deque>
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/offload_memory.hpp>

namespace ikebana::detail {

/// Moves the gradients of units from the device as they arrive. If copies overlap with what the
/// device computes, they are added to the gradients of the master weights when the copies have
/// ended.
class MovedGradients {
 public:
  /// With `reuses`, the memory of a gradient is kept for the next step.
  MovedGradients(const bridge::HostCopies& by, std::shared_ptr<OffloadMemory> memory, bool reuses)
      : copies_(by), memory_(std::move(memory)), reuses_(reuses) {}

  void begin(const Masters& masters, std::size_t units);
  /// Is called when a unit is run whose parameters will get gradients.
  void count_use(const Unit& unit) noexcept { ++of_unit_[unit.index].uses; }
  /// Moves the gradients of a unit, one for each parameter. Returns the gradients that autograd is
  /// to accumulate; the others are accumulated here, at the latest in `finish`. If a microbatch
  /// uses a unit several times, autograd adds up the gradients of these uses before it adds the sum
  /// to that of earlier microbatches.
  Tensors move(const Unit& unit, Tensors gradients);
  /// Moves one master's gradient of a microbatch. Returns an undefined tensor if autograd need not
  /// accumulate it.
  at::Tensor move(const at::Tensor& gradient, std::size_t k);
  /// Waits for the gradients on their way.
  void finish();
  void abort() noexcept;
  void begin_step() noexcept;

  std::int64_t bytes = 0, copies = 0;  ///< the numbers of bytes and copies that were moved in this
                                       ///< step

 private:
  struct OfUnit {
    std::vector<std::pair<std::string, std::size_t>> masters = {};
    std::int64_t uses = 0, calls = 0;  // not matched yet: uses in forward, and calls of `move`
  };
  struct One {
    std::size_t master;
    at::Tensor there, here;
  };
  struct Moving {
    std::vector<One> all;
    bridge::StreamEvent copied;  // the last of these copies
  };

  /// Returns true if a microbatch uses the unit once. The root is used once, and not counted.
  bool has_one_use(const Unit& unit) noexcept;
  std::size_t index_of(const Unit& unit, const std::string& name) const;
  /// Returns true if autograd must call a hook with values: a user's, or DDP's after accumulation.
  bool is_late(std::size_t k) const;
  /// Returns true if the gradient can be added, from its place on the device, to that of an earlier
  /// microbatch.
  bool adds_at_once(const at::Tensor& gradient, std::size_t k) const;
  void count(const at::Tensor& gradient) noexcept;
  /// Adds the gradient to the one that the master has.
  void add(const at::Tensor& gradient, std::size_t k);
  at::Tensor moved(const at::Tensor& gradient, std::size_t k, bridge::StreamEvent& copied);
  /// Returns memory in the memory order of the master: the kept memory, or other memory if that has
  /// another gradient of this step.
  at::Tensor memory_for(const at::Tensor& gradient, std::size_t k);
  void accumulate_first();

  bridge::HostCopies copies_;
  std::shared_ptr<OffloadMemory> memory_;
  bool reuses_;
  Tensors masters_;
  Tensors kept_;  // the memory of each master's gradient, for the next step
  std::vector<OfUnit> of_unit_;
  std::deque<Moving> moving_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/offload/impl/moved_gradients.ipp>
#endif
