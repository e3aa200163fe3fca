#pragma once
// Gradients on their way to where the master weights are.
#include <deque>
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/offload/offload_memory.hpp>

namespace ikebana::detail {

/// Moves the gradients of units out of the device as they arrive. Where copies overlap with what
/// the device computes, they are added to those of the master weights when the copies have ended.
class MovedGradients {
 public:
  /// With `reuses`, the memory of a gradient is kept for the next step.
  MovedGradients(const bridge::HostCopies& by, std::shared_ptr<OffloadMemory> memory, bool reuses)
      : copies_(by), memory_(std::move(memory)), reuses_(reuses) {}

  void begin(const Masters& masters, std::size_t units);
  /// A unit is run, whose parameters are to get gradients.
  void count_use(const Unit& unit) noexcept { ++of_unit_[unit.index].uses; }
  /// Of the gradients of a unit, one for each parameter, those that autograd is to accumulate; the
  /// others are, at the latest, in `finish`. Where a microbatch uses a unit several times, autograd
  /// adds up the gradients of these uses before it adds the sum to that of earlier microbatches.
  Tensors move(const Unit& unit, Tensors gradients);
  /// The same of one master's gradient of a microbatch: undefined where autograd need not.
  at::Tensor move(const at::Tensor& gradient, std::size_t k);
  /// Waits for those that are on their way.
  void finish();
  void abort() noexcept;
  void begin_step() noexcept;

  std::int64_t bytes = 0, copies = 0;  ///< that were moved in this step

 private:
  struct OfUnit {
    std::vector<std::pair<std::string, std::size_t>> masters = {};
    std::int64_t uses = 0, calls = 0;  // that are not matched yet: of its forward, and of `move`
  };
  struct One {
    std::size_t master;
    at::Tensor there, here;
  };
  struct Moving {
    std::vector<One> all;
    bridge::StreamEvent copied;  // the last of them
  };

  /// The root is used once in a microbatch, and not counted.
  bool has_one_use(const Unit& unit) noexcept;
  std::size_t index_of(const Unit& unit, const std::string& name) const;
  /// A hook of the user's, or of DDP after the gradient was accumulated, is called by autograd,
  /// with values.
  bool is_late(std::size_t k) const;
  /// Whether it can be added, where it is, to that of an earlier microbatch.
  bool adds_at_once(const at::Tensor& gradient, std::size_t k) const;
  void count(const at::Tensor& gradient) noexcept;
  /// To that which the master has.
  void add(const at::Tensor& gradient, std::size_t k);
  at::Tensor moved(const at::Tensor& gradient, std::size_t k, bridge::StreamEvent& copied);
  /// In the memory order of the master. Where the kept memory has another gradient of this step,
  /// other memory.
  at::Tensor memory_for(const at::Tensor& gradient, std::size_t k);
  void accumulate_first();

  bridge::HostCopies copies_;
  std::shared_ptr<OffloadMemory> memory_;
  bool reuses_;
  Tensors masters_;
  Tensors kept_;  // the memory of each one's gradient, for the next step
  std::vector<OfUnit> of_unit_;
  std::deque<Moving> moving_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/offload/impl/moved_gradients.ipp>
#endif
