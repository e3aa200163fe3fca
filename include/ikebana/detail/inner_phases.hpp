#pragma once
// Tells a listener of this thread what a step does within its phases: it gathers parameters,
// reduces gradients, offloads tensors, recomputes units. The code that does so is deep inside of
// mechanisms, which know no observer.

namespace ikebana::detail {

/// Work within a phase of a step.
enum class InnerPhase {
  Gather,    ///< parameters of a unit are gathered: cast, copied, or received from other ranks
  Reduce,    ///< gradients are reduced over ranks
  Offload,   ///< tensors are moved out of the device or back
  Recompute  ///< a checkpointed unit is computed again
};

/// Receives the beginning and the end of inner phases, on the thread of the step.
struct InnerPhaseListener {
  /// Begins one, and returns what `end` is given.
  virtual unsigned begin(InnerPhase phase) noexcept = 0;
  virtual void end(unsigned before) noexcept = 0;

 protected:
  ~InnerPhaseListener() = default;
};

/// The listener of this thread; null: none.
inline thread_local constinit InnerPhaseListener* inner_phase_listener = nullptr;

/// RAII: an inner phase. Costs one comparison without a listener.
class InnerPhaseScope {
 public:
  explicit InnerPhaseScope(InnerPhase phase) noexcept : listener_(inner_phase_listener) {
    if (listener_ != nullptr) before_ = listener_->begin(phase);
  }
  ~InnerPhaseScope() {
    if (listener_ != nullptr) listener_->end(before_);
  }
  InnerPhaseScope(const InnerPhaseScope&) = delete;
  InnerPhaseScope& operator=(const InnerPhaseScope&) = delete;

 private:
  InnerPhaseListener* listener_;
  unsigned before_ = 0;
};

}  // namespace ikebana::detail
