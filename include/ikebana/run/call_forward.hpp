#pragma once
// How a module's own forward is called, and how a model's units are reached through it.
#include <ikebana/detail/tensors.hpp>
#include <ikebana/grammar/diagnosis.hpp>
#include <ikebana/hooks.hpp>

namespace ikebana::detail {

/// A unit's own forward, given `run` where it takes one.
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

/// A holder that owns its module, made from whatever was given to `run`.
template <class Holder>
auto owning(Holder& holder) {
  if constexpr (std::is_base_of_v<torch::nn::Module, Holder>)
    return std::static_pointer_cast<Holder>(holder.shared_from_this());
  else return holder;
}

/// True for a model that declares units and is none of them itself.
template <class Model>
inline constexpr bool has_inner_units = shows_units<Model> && !listed<Model, units_of_t<Model>>;

/// True for the model itself and for what it declares as a unit.
template <class Unit, class Model>
inline constexpr bool runnable =
    std::is_same_v<impl_of_t<Unit>, impl_of_t<Model>> ||
    (std::is_same_v<units_of_t<Model>, Children> && std::is_same_v<Unit, torch::nn::AnyModule>) ||
    listed<Unit, units_of_t<Model>>;

}  // namespace ikebana::detail
