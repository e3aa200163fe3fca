#pragma once
// What follows a step that only finds out what it would allocate (run/dry_step.hpp).
#include <ikebana/detail/tensors.hpp>
#include <ikebana/hooks/arguments.hpp>

namespace ikebana::detail {

/// Hears where such a step is.
class DryListener {
 public:
  virtual ~DryListener() = default;
  /// When all that an update allocates is there. True: the step ends, without the update.
  virtual bool ends_at_update() = 0;
  /// A phase begins, and the one before it has ended.
  virtual void begin_phase(Phase) {}
  /// Around the forward of a unit; each tensor that the unit is given is named between them.
  virtual void begin_unit(std::size_t /*unit*/) {}
  virtual void add_input(const at::Tensor&) {}
  /// Its parameters are gathered; also where it is recomputed.
  virtual void in_unit() {}
  virtual void end_unit() noexcept {}
};

/// Thrown where such a step has come to its update. No std::exception, so that nothing handles it
/// on its way.
struct DryStepEnded {};

/// RAII: the forward of a unit, for the listener; nothing in a step that computes.
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

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/run/impl/dry_listener.ipp>
#endif
