#pragma once
// Defines what mechanisms of Capture have in common: what a replay takes for granted besides the
// model, and what a recorder may read.
#include <ikebana/capture/guards.hpp>
#include <ikebana/capture/recorder.hpp>
#include <ikebana/grammar/wrapping_order.hpp>
#include <ikebana/hooks/numbers.hpp>
#include <ikebana/state/archive.hpp>

namespace ikebana::detail {

/// The modes of LibTorch, and the values of policies on which forward and backward depend.
class StepGuard {
 public:
  template <class Core>
  void take(Core& core) {
    is_known_ = false;
    known_.emplace(core.parameters.masters());
    modes_ = TorchModes::now(core.device.type()), hash_ = hash_of_values(core);
    is_known_ = true;
  }
  void forget() noexcept { is_known_ = false; }
  /// Returns false if something has changed, or nothing was taken.
  template <class Core>
  bool is_unchanged(Core& core) {
    return is_known_ && modes_ == TorchModes::now(core.device.type()) &&
           hash_ == hash_of_values(core);
  }

 private:
  template <class Core>
  std::uint64_t hash_of_values(Core& core) {
    ValueHash hash(*known_, 0);
    using Recorded = AxisList<axis::checkpoint, axis::precision, axis::objective>;
    core.mechanisms.each(
        Recorded(), [&](auto& mechanism) { add_value(hash, std::as_const(mechanism.values), 0); });
    return hash.number();
  }

  TorchModes modes_;
  std::optional<KnownValues> known_;
  std::uint64_t hash_ = 0;
  bool is_known_ = false;
};

/// Lets a recorder read the state of mechanisms, which outlives a step.
template <class Core>
void allow_state(Recorder& recorder, Core& core) {
  StateDict state;
  Archive archive(state, Archive::Mode::Save);
  core.mechanisms.precision.state(archive, core.parameters.masters());
  for (const auto& [name, t] : state) recorder.allow(t, MemoryUse::Persistent, name);
  core.mechanisms.each([&](auto& mechanism) {
    each_number(mechanism,
                [&](const at::Tensor& t) { recorder.allow(t, MemoryUse::Number, "number"); });
  });
}

}  // namespace ikebana::detail
