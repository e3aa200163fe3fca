#pragma once
// Makes a dry step of a trainer, which only finds out what a step would allocate.
#include <functional>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/run/dry_listener.hpp>
#include <memory>
#include <optional>
#include <string>

namespace ikebana::bridge {
class FakeLedger;
}

namespace ikebana::detail {

/// The memory of a step without values: its tensors write it to the ledger, and the counter reads
/// it.
struct DryMemory {
  std::shared_ptr<bridge::FakeLedger> ledger;
  bridge::MemoryCounter counter;
};
/// `bytes` are in use on the device before.
DryMemory dry_memory(c10::Device device, std::int64_t bytes);

/// Listens for the update alone, and ends the step there.
template <class F>
class AtDryUpdate final : public DryListener {
 public:
  explicit AtDryUpdate(F f) : f_(std::move(f)) {}
  bool ends_at_update() override { return f_(), true; }

 private:
  F f_;
};

/// Calls `step`, which makes a step of the trainer whose `dry` is given, on tensors without memory,
/// and returns what `result()` returns at its end. The memory that the step would take is counted
/// by `ledger`. `pretend_ranks` comes first, if it is not null.
///
/// All of it happens in a copy of this process: nothing here changes, neither the trainer, nor what
/// a model or a policy keeps from step to step, nor variables of the loss. Returns no value if the
/// step throws, as if shapes depend on values, or if the process cannot be copied.
std::optional<std::string> dry_step(DryListener*& dry, c10::Device device,
                                    const std::shared_ptr<bridge::FakeLedger>& ledger,
                                    DryListener& listener,
                                    const std::function<void()>& pretend_ranks,
                                    const std::function<void()>& step,
                                    const std::function<std::string()>& result);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/run/impl/dry_step.ipp>
#endif
