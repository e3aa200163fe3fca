#pragma once
// Finds the units that a model declares, and the module type behind a holder.
#include <type_traits>

namespace ikebana {

/// The module types that are checkpointed, sharded and offloaded one at a time:
/// `using units = ikebana::Units<Block>;` in the model, holders or module types.
template <class... Modules>
struct Units {};

/// The units of a module type that cannot be edited: specialise it with
/// `using type = ikebana::Units<TheirBlock>;`. `void`: the whole model is one unit.
template <class Module>
struct UnitsOf {
  /// `Units<...>`, or void.
  using type = void;
};
/// The units of a module type that declares them.
template <class Module>
  requires requires { typename Module::units; }
struct UnitsOf<Module> {
  /// The declared list.
  using type = typename Module::units;
};

namespace detail {

/// The module type behind a holder, a `shared_ptr`, or the module itself.
template <class Model>
struct impl_of {
  using type = Model;
};
template <class Pointer>  // a std::shared_ptr; including <memory> would double the compile time
  requires requires(const Pointer& p) {
    typename Pointer::element_type;
    p.use_count();
  }
struct impl_of<Pointer> {
  using type = typename Pointer::element_type;
};
template <class Holder>
  requires requires { typename Holder::ContainedType; }
struct impl_of<Holder> {
  using type = typename Holder::ContainedType;
};
template <class Model>
using impl_of_t = typename impl_of<Model>::type;

template <class Model>
using units_of_t = typename UnitsOf<impl_of_t<Model>>::type;
template <class Model>
inline constexpr bool shows_units = !std::is_void_v<units_of_t<Model>>;

template <class Unit, class List>
inline constexpr bool listed = false;
template <class Unit, class... Modules>
inline constexpr bool listed<Unit, Units<Modules...>> =
    (std::is_same_v<impl_of_t<Unit>, impl_of_t<Modules>> || ...);

// A class has a member `loss`, of any signature, if its name is ambiguous in LossProbe.
struct LossMember {
  void loss();
};
template <class Module>
struct LossProbe : Module, LossMember {};
template <class Model>
inline constexpr bool has_loss = true;
template <class Model>
  requires(std::is_class_v<impl_of_t<Model>> && !std::is_final_v<impl_of_t<Model>> &&
           requires { &LossProbe<impl_of_t<Model>>::loss; })
inline constexpr bool has_loss<Model> = false;

}  // namespace detail
}  // namespace ikebana
