#pragma once
// The path of one unit: how its module's forward is called, inside the wrappers, outermost first.
#include <ikebana/detail/tensors.hpp>
#include <ikebana/grammar/diagnosis.hpp>
#include <ikebana/grammar/wrapping_order.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana {

template <class Core>
class Run;

namespace detail {

/// Calls a unit's own forward, with `run` if it takes one.
template <class Holder, class Run, class... Args>
auto call_forward(Holder& holder, Run& run, Args&&... args) {
  if constexpr (std::is_same_v<Holder, torch::nn::AnyModule>)
    return holder.any_forward(std::as_const(args)...);  // else an AnyValue would wrap itself
  else if constexpr (std::is_base_of_v<torch::nn::Module, Holder>)
    if constexpr (requires { holder.forward(run, args...); }) return holder.forward(run, args...);
    else return holder.forward(std::forward<Args>(args)...);
  else if constexpr (requires { holder->forward(run, args...); })
    return holder->forward(run, args...);
  else return holder->forward(std::forward<Args>(args)...);
}

/// A model that passes `run` on to its units: a Sequential, or one whose forward takes it.
template <class Run, class Model, class... Args>
concept passes_run_on =
    std::is_same_v<units_of_t<Model>, Children> ||
    requires(Run& run, Model& model, Args&&... args) { model->forward(run, args...); };

/// Runs the units of such a model; the children of a Sequential one after the other.
template <class Run, class Model, class... Args>
auto run_units(Run& run, Model& model, Args&&... args) {
  if constexpr (std::is_same_v<units_of_t<Model>, Children>) {
    std::optional<torch::nn::AnyValue> value;
    for (torch::nn::AnyModule& child : *model)
      value = value ? run(child, *value) : run(child, args...);
    return value->template get<at::Tensor>();
  } else {
    return model->forward(run, std::forward<Args>(args)...);
  }
}

/// Returns a holder that owns its module, made from what was given to `run`.
template <class Holder>
auto owning(Holder& holder) {
  if constexpr (std::is_base_of_v<torch::nn::Module, Holder>)
    return std::static_pointer_cast<Holder>(holder.shared_from_this());
  else return holder;
}

/// True for a model that declares units and is not one of them itself.
template <class Model>
inline constexpr bool has_inner_units = shows_units<Model> && !listed<Model, units_of_t<Model>>;

/// True for the model itself and for what it declares as a unit.
template <class Unit, class Model>
inline constexpr bool runnable =
    std::is_same_v<impl_of_t<Unit>, impl_of_t<Model>> ||
    (std::is_same_v<units_of_t<Model>, Children> && std::is_same_v<Unit, torch::nn::AnyModule>) ||
    listed<Unit, units_of_t<Model>>;

/// Returns the core of a trainer, for a recompute. Throws BadRecompute if the trainer was
/// destroyed.
template <class Core>
std::shared_ptr<Core> lock_or_throw(const std::weak_ptr<Core>& core) {
  if (auto locked = core.lock()) return locked;
  throw BadRecompute(
      "checkpoint: backward ran after the trainer was destroyed, and recomputing a unit needs the "
      "trainer. Keep the trainer at least as long as the graph.");
}

/// A unit's own forward, which all wrappers surround.
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

/// One unit's forward inside the wrappers of a list; a call calls the first of them. Each wrapper
/// is given the call inside of it as `next`: `next(args...)` goes on at once, and `next.owned()` is
/// a copy that a recompute may call after this call, the model's variables and even the trainer
/// have ended.
template <class Core, class Forward, class Wrappers>
struct UnitCall {
  Core* core;
  const Unit* unit;
  Forward forward;

  template <class... Args>
  auto operator()(Args&&... args) const {
    if constexpr (std::is_same_v<Wrappers, AxisList<>>) {
      if (core->step.dry != nullptr) core->step.dry->in_unit();
      try {
        if constexpr (Core::one_rank) {
          return forward(*core, std::forward<Args>(args)...);
        } else {  // here as well as around the loss: a recompute may run on another thread
          const auto scope = core->rank_calls.scope(core->step.is_dummy);
          return forward(*core, std::forward<Args>(args)...);
        }
      } catch (const c10::Error&) {
        core->failure.unit.note(unit->name, args...);
        throw;
      }
    } else {
      using Wrapper = typename Wrappers::first;
      const UnitCall<Core, Forward, typename Wrappers::rest> next{core, unit, forward};
      auto& m = core->mechanisms;
      if constexpr (std::is_same_v<Wrapper, wrapper::frames>)
        return m.checkpoint.around_gathered_unit(*unit, next, std::forward<Args>(args)...);
      else if constexpr (std::is_same_v<Wrapper, wrapper::gather>)
        return core->parameters.around_unit(*unit, next, std::forward<Args>(args)...);
      else
        return m.on(std::type_identity<Wrapper>())
            .around_unit(*unit, next, std::forward<Args>(args)...);
    }
  }
  auto owned() const {
    return [core = core->weak_from_this(), unit = unit,
            forward = forward.owning_copy()](auto&&... args) mutable {
      auto locked = lock_or_throw(core);
      const UnitCall<Core, decltype(forward.borrowed()), Wrappers> again{locked.get(), unit,
                                                                         forward.borrowed()};
      return again(std::forward<decltype(args)>(args)...);
    };
  }
};

}  // namespace detail
}  // namespace ikebana
