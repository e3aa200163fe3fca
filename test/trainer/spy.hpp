#pragma once
// A policy for any axis that records every hook that is called, throws at a given call, and
// otherwise does what its axis's null policy or default does.
#include "compare.hpp"

namespace test {

struct Bomb : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The calls, in order. The line with number `fuse` throws after it is recorded.
struct Journal {
  std::vector<std::string> lines;
  std::size_t fuse = std::size_t(-1);

  void note(std::string line) noexcept { lines.push_back(std::move(line)); }
  void ask(std::string line) {
    note(std::move(line));
    if (lines.size() - 1 == fuse) throw Bomb(lines.back());
  }
  std::string text() const {
    std::string all;
    for (const auto& line : lines) all += (all.empty() ? "" : " ") + line;
    return all;
  }
};
inline Journal journal;

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
struct ikebana::Mechanism<test::Quiet> : ikebana::Hooks {
  test::Quiet values;
  explicit Mechanism(test::Quiet v) : values(v) {}
};

namespace test {

template <class Axis>
class Recorder : public ikebana::Mechanism<typename stand_in<Axis>::policy> {
  using Base = ikebana::Mechanism<typename stand_in<Axis>::policy>;
  using Unit = ikebana::Unit;
  using Masters = ikebana::Masters;
  using StepGradients = ikebana::StepGradients;

 public:
  Recorder() : Base(typename stand_in<Axis>::policy{}) {}

  void freeze(const ikebana::UnitTable& units) {
    ask("freeze");
    Base::freeze(units);
  }
  void attach(c10::Device device, const ikebana::UnitTable& units) {
    ask("attach");
    Base::attach(device, units);
  }
  void begin(const Masters& masters) {
    ask("begin");
    Base::begin(masters);
  }
  template <class Next>
  decltype(auto) around_step(Next&& next) {
    return around("around_step", [&]() -> decltype(auto) { return Base::around_step(next); });
  }
  template <class Next>
  decltype(auto) around_phase(ikebana::Phase phase, Next&& next) {
    static const char* names[] = {"data", "forward", "backward", "optimizer"};
    return around(names[int(phase)],
                  [&]() -> decltype(auto) { return Base::around_phase(phase, next); });
  }
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    return around("around_forward", [&]() -> decltype(auto) { return Base::around_forward(next); });
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    return around("around_unit(" + unit.name, [&]() -> decltype(auto) {
      return Base::around_unit(unit, next, std::forward<Args>(args)...);
    });
  }
  template <class Batch>
  Batch place(const Batch& batch, c10::Device device) {
    ask("place");
    return Base::place(batch, device);
  }
  template <class Batch>
  auto split(const Batch& batch) {
    ask("split");
    return Base::split(batch);
  }
  template <class Run, class Model, class Batch>
  ikebana::Loss loss(Run& run, Model& model, const Batch& batch) {
    return around("loss", [&] { return Base::loss(run, model, batch); });
  }
  template <class Model, class Batch>
  auto count(Model& model, const Batch& batch)
    requires requires(Base& base) { base.count(model, batch); }
  {
    ask("count");
    return Base::count(model, batch);
  }
  ikebana::Count sum(const ikebana::Count& count) { return ask("sum"), Base::sum(count); }
  at::Tensor sum(const at::Tensor& t) { return ask("sum"), Base::sum(t); }
  void set_requires_gradient_sync(bool last) {
    ask(last ? "set_requires_gradient_sync(last" : "set_requires_gradient_sync(");
    Base::set_requires_gradient_sync(last);
  }
  void before_unit_backward(const Unit& unit) {
    ask("before(" + unit.name);
    Base::before_unit_backward(unit);
  }
  void after_unit_backward(const Unit& unit) {
    ask("after(" + unit.name);
    Base::after_unit_backward(unit);
  }
  at::Tensor scale(const at::Tensor& seed) { return ask("scale"), Base::scale(seed); }
  void unscale(StepGradients& gradients) {
    ask("unscale");
    Base::unscale(gradients);
  }
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks& ranks) {
    ask("clip");
    Base::clip(gradients, ranks);
  }
  template <class Ranks>
  void accept(StepGradients& gradients, const ikebana::LossValue& loss, Ranks& ranks,
              ikebana::detail::DeferredCheck& deferred) {
    ask("accept");
    Base::accept(gradients, loss, ranks, deferred);
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    ask("prepare");
    Base::prepare(masters, gradients, rate);
  }
  void update(const Masters& masters, StepGradients& gradients) noexcept {
    note("update");
    Base::update(masters, gradients);
  }
  void after_update(const Masters& masters, const StepGradients& gradients) noexcept {
    note("after_update");
    Base::after_update(masters, gradients);
  }
  void end_step(const StepGradients& gradients, ikebana::Report& report) noexcept {
    note("end_step");
    Base::end_step(gradients, report);
  }
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters& parameters, Next&& next) {
    return around("around_evaluation",
                  [&]() -> decltype(auto) { return Base::around_evaluation(parameters, next); });
  }
  void end_epoch(const ikebana::Epoch& epoch) {
    ask("end_epoch");
    Base::end_epoch(epoch);
  }
  void abort() noexcept {
    note("abort");
    Base::abort();
  }

 protected:
  static std::string line(const std::string& hook) {
    return ikebana::detail::type_name<Axis>() + "." + hook +
           (hook.find('(') == std::string::npos ? "" : ")");
  }
  static void note(const std::string& hook) noexcept { journal.note(line(hook)); }
  static void ask(const std::string& hook) { journal.ask(line(hook)); }
  template <class F>
  static decltype(auto) around(const std::string& hook, F&& f) {
    journal.ask(line(hook) + "{");
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      journal.ask("}");
    } else {
      decltype(auto) result = f();
      journal.ask("}");
      return result;
    }
  }
};

}  // namespace test

template <class Axis>
struct ikebana::Mechanism<test::Spy<Axis, false>> : test::Recorder<Axis> {
  test::Spy<Axis, false> values;
  explicit Mechanism(test::Spy<Axis, false> v) : values(v) {}
};
template <class Axis>
struct ikebana::Mechanism<test::Spy<Axis, true>> : test::Recorder<Axis> {
  test::Spy<Axis, true> values;
  explicit Mechanism(test::Spy<Axis, true> v) : values(v) {}

  Tensors to_masters(const Unit& unit, Tensors full) {
    return this->ask("to_masters(" + unit.name), full;
  }
  Tensors gather(const Unit& unit, Tensors masters) {
    this->ask("gather(" + unit.name);
    if constexpr (std::is_same_v<Axis, axis::offload>)
      for (auto& t : masters) t = t.clone();  // gathered parameters are new tensors
    return masters;
  }
  Tensors reduce(const Unit& unit, Tensors gradients) {
    return this->ask("reduce(" + unit.name), gradients;
  }
};

namespace test {

/// A trainer with a spy on every axis.
template <class Model, bool Moves, class A = ikebana::axis::observe>
using Watched =
    ikebana::Trainer<Model, Spy<A, Moves>, Spy<ikebana::axis::capture, Moves>,
                     Spy<ikebana::axis::shard, Moves>, Spy<ikebana::axis::offload, Moves>,
                     Spy<ikebana::axis::checkpoint, Moves>, Spy<ikebana::axis::precision, Moves>,
                     Spy<ikebana::axis::prune, Moves>, Spy<ikebana::axis::quantize, Moves>,
                     Spy<ikebana::axis::accumulate, Moves>, Spy<ikebana::axis::objective, Moves>,
                     Spy<ikebana::axis::clip, Moves>, Spy<ikebana::axis::optimizer, Moves>,
                     Spy<ikebana::axis::schedule, Moves>, Spy<ikebana::axis::average, Moves>,
                     Spy<ikebana::axis::freeze, Moves>, Spy<ikebana::axis::device, Moves>>;

}  // namespace test
