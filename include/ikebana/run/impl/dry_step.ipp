#pragma once
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/fake/fake_ledger.hpp>
#include <ikebana/posix/process_copy.hpp>
#include <ikebana/run/dry_step.hpp>

namespace ikebana::detail {

IKEBANA_INLINE DryMemory dry_memory(c10::Device device, std::int64_t bytes) {
  auto ledger = make_shared_apart<bridge::FakeLedger>();
  ledger->begin_with(device, bytes);
  bridge::MemoryCounter counter(ledger->of(device));
  return {std::move(ledger), std::move(counter)};
}

IKEBANA_INLINE std::optional<std::string> dry_step(
    DryListener*& dry, c10::Device device, const std::shared_ptr<bridge::FakeLedger>& ledger,
    DryListener& listener, const std::function<void()>& pretend_ranks,
    const std::function<void()>& step, const std::function<std::string()>& result) {
  if (!device.is_cpu() || !bridge::operator_modes_available()) return {};
  return in_process_copy([&] {
    using Allocator = bridge::CountingAllocatorV2;
    // Small tensors are computed, even if a limit leaves no room.
    if (auto* allocator = Allocator::installed())
      allocator->set_limit(Allocator::no_limit), allocator->forget_observers();
    const bridge::OneThread alone;  // OpenMP's threads are not copied, and it would wait for them
    if (pretend_ranks) pretend_ranks();
    dry = &listener;
    try {
      const bridge::FakeLedgerScope scope(ledger);
      step();
    } catch (const DryStepEnded&) {
    }
    return result();
  });
}

}  // namespace ikebana::detail
