#pragma once
// The path of one unit: its forward inside the wrappers, outermost first.
#include <ikebana/grammar/wrapping_order.hpp>
#include <ikebana/run/call_forward.hpp>

namespace ikebana {

template <class Core>
class Run;

namespace detail {

/// What a trainer holds, for a recompute that may come after the trainer was destroyed.
template <class Core>
std::shared_ptr<Core> lock_or_throw(const std::weak_ptr<Core>& core) {
  if (auto locked = core.lock()) return locked;
  throw BadRecompute(
      "checkpoint: backward ran after the trainer was destroyed, and recomputing a unit needs the "
      "trainer. Keep the trainer at least as long as the graph.");
}

/// The innermost of all: a unit's own forward.
template <class Holder>
struct ModuleForward {
  Holder* holder;
  bool evaluating;

  template <class Core, class... Args>
  auto operator()(Core& core, Args&&... args) const {
    Run<Core> run(core, evaluating);
    return call_forward(*holder, run, std::forward<Args>(args)...);
  }
  /// A copy that keeps the module in memory.
  struct Owning {
    decltype(owning(std::declval<Holder&>())) holder;
    bool evaluating;
    auto borrowed() { return ModuleForward<decltype(holder)>{&holder, evaluating}; }
  };
  Owning owning_copy() const { return {owning(*holder), evaluating}; }
};

/// One unit's forward inside the wrappers of a list, the first of which is asked now. Each wrapper
/// is given the call inside of it as `next`: `next(args...)` goes on at once, and `next.owned()`
/// is a copy that a recompute may call after this call, the model's variables and even the trainer
/// have ended.
template <class Core, class Forward, class Wrappers = UnitWrappers>
class UnitCall {
 public:
  UnitCall(Core& core, const Unit& unit, Forward forward)
      : core_(&core), unit_(&unit), forward_(forward) {}

  template <class... Args>
  auto operator()(Args&&... args) const {
    return ask(Wrappers(), std::forward<Args>(args)...);
  }
  auto owned() const {
    return [core = core_->weak_from_this(), unit = unit_,
            forward = forward_.owning_copy()](auto&&... args) mutable {
      auto locked = lock_or_throw(core);
      using Again = UnitCall<Core, decltype(forward.borrowed()), Wrappers>;
      return Again(*locked, *unit, forward.borrowed())(std::forward<decltype(args)>(args)...);
    };
  }

 private:
  template <class Wrapper, class... Inner, class... Args>
  auto ask(AxisList<Wrapper, Inner...>, Args&&... args) const {
    const UnitCall<Core, Forward, AxisList<Inner...>> next(*core_, *unit_, forward_);
    auto& m = core_->mechanisms;
    if constexpr (std::is_same_v<Wrapper, wrapper::frames>)
      return m.checkpoint.around_gathered_unit(*unit_, next, std::forward<Args>(args)...);
    else if constexpr (std::is_same_v<Wrapper, wrapper::gather>)
      return core_->parameters.around_unit(*unit_, next, std::forward<Args>(args)...);
    else return m.template on<Wrapper>().around_unit(*unit_, next, std::forward<Args>(args)...);
  }
  template <class... Args>
  auto ask(AxisList<>, Args&&... args) const {
    return forward_(*core_, std::forward<Args>(args)...);
  }

  Core* core_;
  const Unit* unit_;
  Forward forward_;
};

}  // namespace detail
}  // namespace ikebana
