#pragma once
// A step of a trainer that only finds out what it would allocate.
#include <ikebana/bridge/fake_ledger.hpp>

namespace ikebana::detail {

/// Calls `step`, which makes a step of `core`, on tensors without memory: its parameters, its state
/// and its batch stay as they are. `at_update` is called in place of the update, when all that an
/// update allocates is there. The memory that the step would take is counted by `ledger`, which is
/// to have what is in use already. Throws what the step throws, and Error where shapes depend on
/// values. For one rank whose parameters stay in place.
/// A template, so that only files that use it compile it.
template <class Core, class Step, class AtUpdate>
void dry_step(Core& core, const std::shared_ptr<bridge::FakeLedger>& ledger, Step&& step,
              AtUpdate&& at_update) {
  struct End {
    Core& core;
    ~End() { core.step.at_dry_update = {}; }
  } end{core};
  core.step.at_dry_update = std::forward<AtUpdate>(at_update);
  const bridge::FakeLedgerScope scope(ledger, bridge::Existing::Shaped);
  try {
    step();
  } catch (const DryStepEnded&) {
  }
}

}  // namespace ikebana::detail
