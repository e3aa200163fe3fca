#pragma once
// Keeps the last steps on an accelerator, where a step is known to have failed only when a later
// one begins, to make them again.
#include <deque>
#include <functional>
#include <ikebana/bridge/generator_state.hpp>
#include <ikebana/detail/tensor_version.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/run/dry_step.hpp>
#include <utility>
#include <vector>

namespace ikebana::detail {

/// One of the last steps: its batch, by reference, and where the random generators were.
struct KeptStep {
  std::int64_t step = 0;
  std::vector<at::Tensor> tensors = {};   // the tensors of its batch
  std::vector<Version> versions = {};     // their versions when it was made
  std::function<void()> make_again = {};  // up to its update, which it does not make
  c10::Device on = at::kCPU;
  bridge::GeneratorState host, device;

  /// Returns true if the batch was written to since.
  bool is_written() const;
  /// Calls `make_again` with the generators as they were, in this thread alone, so that all its
  /// operators can be seen. The generators are then as before.
  void repeat() const;
};

/// RAII: a step that is made meanwhile ends before its update, and reads and leaves no flag of
/// other steps.
class TrialStep {
 public:
  TrialStep(DryListener*& dry, DeferredCheck& checks)
      : dry_(dry), checks_(checks), former_(std::exchange(checks, DeferredCheck())) {
    dry_ = &listener_;
  }
  ~TrialStep() { dry_ = nullptr, checks_ = std::move(former_); }
  TrialStep(const TrialStep&) = delete;
  TrialStep& operator=(const TrialStep&) = delete;

 private:
  struct AtUpdate final : DryListener {
    bool ends_at_update() override { return true; }
  };
  DryListener*& dry_;
  DeferredCheck& checks_;
  DeferredCheck former_;
  AtUpdate listener_;
};

/// The steps whose flags may not have arrived: the last two, and the present one. Keeps their
/// batches alive.
class KeptSteps {
 public:
  template <class Core, class Batch>
  void add(Core& core, const Batch& batch, std::vector<at::Tensor> tensors) {
    if (steps_.size() == most) steps_.pop_front();
    std::vector<Version> versions;
    std::erase_if(tensors, [](const at::Tensor& t) { return !t.defined(); });
    for (const at::Tensor& t : tensors) versions.emplace_back(t);
    steps_.push_back({.step = core.step.attempts,
                      .tensors = std::move(tensors),
                      .versions = std::move(versions),
                      .make_again = repeat_of(core, batch),
                      .on = core.device,
                      .host = bridge::GeneratorState(c10::Device(c10::kCPU)),
                      .device = bridge::GeneratorState(core.device)});
  }
  /// Is called when the present step has thrown, and is undone.
  void forget_last() noexcept { steps_.pop_back(); }
  /// Forgets this step and those before it.
  void forget_until(std::int64_t step) noexcept;
  const std::deque<KeptStep>& steps() const { return steps_; }

 private:
  static constexpr std::size_t most = 3;

  /// Copies a batch, of which only references to its tensors are copied, and a range of batches one
  /// by one.
  template <class Core, class Batch>
  static std::function<void()> repeat_of(Core& core, const Batch& batch) {
    if constexpr (Batches<const Batch>) {
      using One = std::decay_t<decltype(*std::begin(batch))>;
      return repeat_of_copy(core, std::vector<One>(std::begin(batch), std::end(batch)));
    } else {
      return repeat_of_copy(core, Batch(batch));
    }
  }
  template <class Core, class Batch>
  static std::function<void()> repeat_of_copy(Core& core, Batch copy) {
    return [&core, copy = std::move(copy)] {
      const TrialStep trial(core.step.dry, core.step.deferred);
      try {
        step(core, copy);  // ikebana::step, which is found by its argument
      } catch (const DryStepEnded&) {
      }
    };
  }

  std::deque<KeptStep> steps_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/kept_steps.ipp>
#endif
