#pragma once
// A step of a trainer that only finds out what it would allocate.
#include <ikebana/bridge/fake_ledger.hpp>
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/posix/process_copy.hpp>
#include <ikebana/run/dry_listener.hpp>

namespace ikebana::detail {

/// False for a policy of Shard that cannot do without the other ranks.
template <class Core>
inline constexpr bool can_run_dry =
    Core::one_rank || requires(Core& core) { core.mechanisms.shard.pretend_ranks(); };

/// True where such a step measures what every later one takes, to the byte: parameters stay in
/// place, nothing but the optimizer's update changes them, and no other rank takes part.
template <class Core>
inline constexpr bool plans_dry =
    Core::one_rank && !std::decay_t<decltype(std::declval<Core&>().mechanisms)>::moves_parameters &&
    !Core::Optimizer::updates_in_backward;

/// Listens for the update alone.
template <class F>
class AtDryUpdate final : public DryListener {
 public:
  explicit AtDryUpdate(F f) : f_(std::move(f)) {}
  bool ends_at_update() override { return f_(), true; }

 private:
  F f_;
};

/// Calls `step`, which makes a step of `core`, on tensors without memory, and returns what
/// `result()` returns at its end. The memory that the step would take is counted by `ledger`.
///
/// All of it happens in a copy of this process: nothing here changes, neither the trainer, nor what
/// a model or a policy keeps from step to step, nor variables of the loss. No value where the step
/// throws, as where shapes depend on values, and where there can be no such copy.
template <class Core, class Step, class Result>
std::optional<std::string> dry_step(Core& core, const std::shared_ptr<bridge::FakeLedger>& ledger,
                                    DryListener& listener, Step&& step, const Result& result) {
  static_assert(can_run_dry<Core>);
  if (!core.device.is_cpu() || !bridge::operator_modes_available()) return {};
  return in_process_copy([&] {
    using Allocator = bridge::CountingAllocatorV2;
    // What is small is computed, also where a limit leaves no room.
    if (auto* allocator = Allocator::installed())
      allocator->set_limit(Allocator::no_limit), allocator->forget_observers();
    const bridge::OneThread alone;  // OpenMP's threads are not copied, and it would wait for them
    if constexpr (!Core::one_rank) core.mechanisms.shard.pretend_ranks();
    core.step.dry = &listener;
    try {
      const bridge::FakeLedgerScope scope(ledger);
      step();
    } catch (const DryStepEnded&) {
    }
    return result();
  });
}

}  // namespace ikebana::detail
