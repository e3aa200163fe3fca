#pragma once
// Maps each axis to the base of its mechanisms. The bases are defined in hooks.hpp.
#include <ikebana/grammar/axes.hpp>

namespace ikebana {

struct Hooks;
struct ObserveHooks;
struct CaptureHooks;
struct ShardHooks;
struct OffloadHooks;
struct CheckpointHooks;
struct PrecisionHooks;
struct AccumulateHooks;
struct ObjectiveHooks;
struct ClipHooks;
struct OptimizerHooks;
struct ScheduleHooks;
struct AverageHooks;
struct FreezeHooks;
struct DeviceHooks;
struct LayoutHooks;

namespace detail {

// clang-format off
template <class Axis> struct hooks_of { using type = Hooks; };
template <> struct hooks_of<axis::observe> { using type = ObserveHooks; };
template <> struct hooks_of<axis::capture> { using type = CaptureHooks; };
template <> struct hooks_of<axis::shard> { using type = ShardHooks; };
template <> struct hooks_of<axis::offload> { using type = OffloadHooks; };
template <> struct hooks_of<axis::checkpoint> { using type = CheckpointHooks; };
template <> struct hooks_of<axis::precision> { using type = PrecisionHooks; };
template <> struct hooks_of<axis::accumulate> { using type = AccumulateHooks; };
template <> struct hooks_of<axis::objective> { using type = ObjectiveHooks; };
template <> struct hooks_of<axis::clip> { using type = ClipHooks; };
template <> struct hooks_of<axis::optimizer> { using type = OptimizerHooks; };
template <> struct hooks_of<axis::schedule> { using type = ScheduleHooks; };
template <> struct hooks_of<axis::average> { using type = AverageHooks; };
template <> struct hooks_of<axis::freeze> { using type = FreezeHooks; };
template <> struct hooks_of<axis::device> { using type = DeviceHooks; };
template <> struct hooks_of<axis::layout> { using type = LayoutHooks; };
// clang-format on

}  // namespace detail

/// The base of the mechanisms of an axis: `HooksOf<axis::clip>` is `ClipHooks`.
template <class Axis>
using HooksOf = typename detail::hooks_of<Axis>::type;

}  // namespace ikebana
