#pragma once
// Defines the listener to a dry step, which only measures what a step would allocate
// (run/dry_step.hpp).
#include <ikebana/detail/tensors.hpp>
#include <ikebana/hooks/arguments.hpp>

namespace ikebana::detail {

/// Follows where a dry step is.
class DryListener {
 public:
  virtual ~DryListener() = default;
  /// Is called when everything that an update allocates exists. If it returns true, the step ends
  /// without the update.
  virtual bool ends_at_update() = 0;
  /// Is called when a phase begins, and the one before it has ended.
  virtual void begin_phase(Phase) {}
  /// Is called around the forward of a unit, with `add_input` for each tensor that the unit is
  /// given.
  virtual void begin_unit(std::size_t /*unit*/) {}
  virtual void add_input(const at::Tensor&) {}
  /// Is called when the unit's parameters are gathered, also in a recompute.
  virtual void in_unit() {}
  virtual void end_unit() noexcept {}
};

/// Thrown when a dry step has come to its update. It is no std::exception, so that no code handles
/// it on its way.
struct DryStepEnded {};

/// RAII: tells the listener of the forward of a unit; does nothing in a step that computes.
class DryUnit {
 public:
  template <class... Args>
  DryUnit(DryListener* listener, std::size_t unit, const Args&... args) : listener_(listener) {
    if (listener_ == nullptr) return;
    listener_->begin_unit(unit);
    (for_each_tensor(args, [&](const at::Tensor& t) { listener_->add_input(t); }), ...);
  }
  ~DryUnit();
  DryUnit(const DryUnit&) = delete;
  DryUnit& operator=(const DryUnit&) = delete;

 private:
  DryListener* listener_;
};

/// False for a policy of Shard that cannot run without the other ranks.
template <class Core>
inline constexpr bool can_run_dry =
    Core::one_rank || requires(Core& core) { core.mechanisms.shard.pretend_ranks(); };

/// True if a dry step measures what every later step takes, to the byte: parameters stay in
/// place, nothing but the optimizer's update changes them, and no other rank takes part.
template <class Core>
inline constexpr bool plans_dry =
    Core::one_rank && !std::decay_t<decltype(std::declval<Core&>().mechanisms)>::moves_parameters &&
    !Core::Optimizer::updates_in_backward;

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/run/impl/dry_listener.ipp>
#endif
