#pragma once
// A policy for any axis that records every hook that is called, throws at a given call, and
// otherwise does what its axis's null policy or default does.
#include "record.hpp"

namespace test {

/// With `Moves` it overrides to_masters, gather and reduce as well, so that parameters move.
template <class Axis, bool Moves = false>
struct Spy {
  using axis = Axis;
};

/// The default of an axis that has no default policy of its own.
struct Quiet {
  using axis = ikebana::axis::observe;
};
template <class Axis>
struct stand_in {
  using policy = typename Axis::default_policy;
};
template <>
struct stand_in<ikebana::axis::observe> {
  using policy = Quiet;
};
template <>
struct stand_in<ikebana::axis::accumulate> {
  using policy = ikebana::Accumulate<2>;
};

}  // namespace test

template <>
struct ikebana::Mechanism<test::Quiet> : ikebana::ObserveHooks {
  test::Quiet values;
  explicit Mechanism(test::Quiet v) : values(v) {}
};

namespace test {

/// Says what a spy does besides recording.
template <class Axis>
struct StandIn : ikebana::Mechanism<typename stand_in<Axis>::policy> {
  using Policy = typename stand_in<Axis>::policy;
  StandIn() : ikebana::Mechanism<Policy>(Policy{}) {}
};
template <class Base>
struct Gather : Base {
  static constexpr bool moves_parameters = true;
  ikebana::Tensors gather(const ikebana::Unit& unit, ikebana::Tensors masters) {
    this->ask("gather(" + unit.name);
    if constexpr (std::is_base_of_v<ikebana::OffloadHooks, Base>)
      for (auto& t : masters) t = t.clone();  // gathered parameters are new tensors
    return masters;
  }
  ikebana::Tensors reduce(const ikebana::Unit& unit, ikebana::Tensors gradients) {
    return this->ask("reduce(" + unit.name), gradients;
  }
  ikebana::Tensors to_masters(const ikebana::Unit& unit, ikebana::Tensors full) {
    return this->ask("to_masters(" + unit.name), full;
  }
};

/// `Record<Base>` for each of the layers, if Base derives from `Hooks`.
template <class Hooks, template <class> class Record>
struct LayerOf {
  template <class Base>
  using around = std::conditional_t<std::is_base_of_v<Hooks, Base>, Record<Base>, Base>;
};
template <class Base, class... Layers>
struct layered {
  using type = Base;
};
template <class Base, class First, class... Layers>
struct layered<Base, First, Layers...> : layered<typename First::template around<Base>, Layers...> {
};
template <class Axis>
using Recorder = typename layered<
    RecordCommon<Axis, StandIn<Axis>>, LayerOf<ikebana::StepWrapperHooks, RecordStepWrapper>,
    LayerOf<ikebana::UnitWrapperHooks, RecordUnitWrapper>,
    LayerOf<ikebana::UnitBackwardHooks, RecordUnitBackward>,
    LayerOf<ikebana::ObserveHooks, RecordObserve>, LayerOf<ikebana::CaptureHooks, RecordCapture>,
    LayerOf<ikebana::ShardHooks, RecordShard>, LayerOf<ikebana::PrecisionHooks, RecordPrecision>,
    LayerOf<ikebana::AccumulateHooks, RecordAccumulate>,
    LayerOf<ikebana::ObjectiveHooks, RecordObjective>, LayerOf<ikebana::ClipHooks, RecordClip>,
    LayerOf<ikebana::OptimizerHooks, RecordOptimizer>,
    LayerOf<ikebana::AverageHooks, RecordAverage>, LayerOf<ikebana::FreezeHooks, RecordFreeze>,
    LayerOf<ikebana::DeviceHooks, RecordPlace>, LayerOf<ikebana::LayoutHooks, RecordPlace>>::type;
template <class Axis, bool Moves>
struct SpyBase : Recorder<Axis> {};
template <class Axis>
struct SpyBase<Axis, true> : layered<Recorder<Axis>, LayerOf<ikebana::StorageHooks, Gather>>::type {
};

}  // namespace test

template <class Axis, bool Moves>
struct ikebana::Mechanism<test::Spy<Axis, Moves>> : test::SpyBase<Axis, Moves> {
  using carries_out = test::Spy<Axis, Moves>;  // the values of what it stands in for do not change
  test::Spy<Axis, Moves> values;
  explicit Mechanism(test::Spy<Axis, Moves> v) : values(v) {}
};

namespace test {

/// A trainer with a spy on every axis.
template <class Model, bool Moves, class A = ikebana::axis::observe>
using Watched =
    ikebana::Trainer<Model, Spy<A, Moves>, Spy<ikebana::axis::capture, Moves>,
                     Spy<ikebana::axis::shard, Moves>, Spy<ikebana::axis::offload, Moves>,
                     Spy<ikebana::axis::checkpoint, Moves>, Spy<ikebana::axis::precision, Moves>,
                     Spy<ikebana::axis::accumulate, Moves>, Spy<ikebana::axis::objective, Moves>,
                     Spy<ikebana::axis::clip, Moves>, Spy<ikebana::axis::optimizer, Moves>,
                     Spy<ikebana::axis::schedule, Moves>, Spy<ikebana::axis::average, Moves>,
                     Spy<ikebana::axis::freeze, Moves>, Spy<ikebana::axis::device, Moves>,
                     Spy<ikebana::axis::layout, Moves>>;

}  // namespace test
