#pragma once
// Every order that the axes have among themselves, with its reasons. No other file repeats one.
#include <ikebana/grammar/axes.hpp>

#include <ikebana/detail/macros_aside.inc>

#include <boost/hana/filter.hpp>
#include <boost/hana/reverse.hpp>
#include <boost/hana/tuple.hpp>
#include <boost/hana/type.hpp>
#include <boost/hana/unpack.hpp>

#include <ikebana/detail/macros_back.inc>

namespace ikebana {

/// Axes in an order that means something.
template <class... Axes>
struct AxisList {};
/// The order of one axis or more.
template <class First, class... Rest>
struct AxisList<First, Rest...> {
  using first = First;             ///< the outermost
  using rest = AxisList<Rest...>;  ///< the others
};

/// The wrapping order, outermost first. What recompute does again is inside checkpoint; what it
/// must not do again is outside.
/// - observe sees everything, also what a captured step does when it is replayed;
/// - capture records what is inside it, collectives and copies included;
/// - shard before offload: a gathered unit is freed as a whole, on whatever device it is;
/// - both outside checkpoint: a recompute must not gather a second time;
/// - precision inside checkpoint: a recompute must use the same dtypes.
/// The other axes wrap no unit and follow in the order in which a step asks them.
using WrappingOrder =
    AxisList<axis::observe, axis::capture, axis::shard, axis::offload, axis::checkpoint,
             axis::precision, axis::accumulate, axis::objective, axis::clip, axis::optimizer,
             axis::schedule, axis::average, axis::freeze, axis::device, axis::layout>;

/// True for an axis of a user's own, which follows all others in a recipe that has it.
template <class Axis>
concept own_axis = std::is_class_v<Axis> && requires { sizeof(Axis); } &&
                   std::is_base_of_v<axis::own, Axis> && !std::is_same_v<axis::own, Axis>;

/// The axes that are asked `around_step`. All are outside of the transaction of a step, so that one
/// of them may make it again after an exception: accumulate, with other microbatches, within what
/// observe sees as one step. Checkpoint may first plan what it keeps; precision sets what is
/// global.
using StepWrappers =
    AxisList<axis::observe, axis::capture, axis::checkpoint, axis::accumulate, axis::precision>;

/// Two wrappers of a unit that are not axes.
namespace wrapper {
struct frames;  ///< a checkpoint frame over several units; recompute gathers each of them again
struct gather;  ///< the unit's parameters are gathered, and released afterwards
}  // namespace wrapper

/// The axes around one unit's forward. Shard and offload may use the parameters that were gathered.
/// What capture replays of a unit is inside of what is done by no operators, such as gathering.
using UnitWrappers = AxisList<axis::observe, wrapper::frames, wrapper::gather, axis::shard,
                              axis::offload, axis::capture, axis::checkpoint, axis::precision>;

/// The axes that are called before and after a unit's backward.
using BackwardListeners = AxisList<axis::observe, axis::shard, axis::offload>;

/// The way from master weights to what a unit computes with: moved to the device, cast, gathered
/// from all ranks. Gradients are reduced the opposite way.
using GatherOrder = AxisList<axis::offload, axis::precision, axis::shard>;

namespace detail {
namespace hana = boost::hana;

template <class... Axes>
constexpr auto hana_types(AxisList<Axes...>) {
  return hana::tuple_t<Axes...>;
}
/// The axes of a list of Boost.Hana.
struct to_axis_list {
  template <class... Axes>
  constexpr auto operator()(Axes...) const {
    return AxisList<typename Axes::type...>();
  }
};
template <template <class> class Keep>
struct is_kept {
  template <class Axis>
  constexpr auto operator()(Axis) const {
    return hana::bool_c<Keep<typename Axis::type>::value>;
  }
};

template <class List>
using reversed_t = decltype(hana::unpack(hana::reverse(hana_types(List())), to_axis_list()));
/// The members of a list for which `Keep` is true.
template <class List, template <class> class Keep>
using filtered_t =
    decltype(hana::unpack(hana::filter(hana_types(List()), is_kept<Keep>()), to_axis_list()));

}  // namespace detail
}  // namespace ikebana
