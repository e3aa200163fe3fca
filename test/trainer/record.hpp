#pragma once
// Records every hook that is called, and throws at a given call: one class for the hooks of each
// base of hooks.hpp, to be put around a mechanism.
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
inline thread_local Journal journal;  // the journal of a thread, because ranks may be threads

/// Records the hooks that every mechanism is asked.
template <class Axis, class Base>
class RecordCommon : public Base {
 public:
  void attach(c10::Device device, const ikebana::UnitTable& units) {
    ask("attach");
    Base::attach(device, units);
  }
  void begin(const ikebana::Masters& masters) {
    ask("begin");
    Base::begin(masters);
  }
  template <class Rate>
  void prepare(const ikebana::Masters& masters, ikebana::StepGradients& gradients,
               const Rate& rate) {
    ask("prepare");
    Base::prepare(masters, gradients, rate);
  }
  void after_update(const ikebana::Masters& masters,
                    const ikebana::StepGradients& gradients) noexcept {
    note("after_update");
    Base::after_update(masters, gradients);
  }
  void end_step(const ikebana::StepGradients& gradients, ikebana::Report& report) noexcept {
    note("end_step");
    Base::end_step(gradients, report);
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

// Each records the hooks of one base, and is put around the mechanisms that derive from it.

template <class Base>
struct RecordStepWrapper : Base {
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core& core, const Batch& batch, Next&& next) {
    return this->around("around_step",
                        [&]() -> decltype(auto) { return Base::around_step(core, batch, next); });
  }
};
template <class Base>
struct RecordUnitWrapper : Base {
  template <class Next, class... Args>
  decltype(auto) around_unit(const ikebana::Unit& unit, Next&& next, Args&&... args) {
    return this->around("around_unit(" + unit.name, [&]() -> decltype(auto) {
      return Base::around_unit(unit, next, std::forward<Args>(args)...);
    });
  }
};
template <class Base>
struct RecordUnitBackward : Base {
  static constexpr bool listens_to_backward = true;
  void before_unit_backward(const ikebana::Unit& unit) {
    this->ask("before(" + unit.name);
    Base::before_unit_backward(unit);
  }
  void after_unit_backward(const ikebana::Unit& unit) {
    this->ask("after(" + unit.name);
    Base::after_unit_backward(unit);
  }
};
template <class Base>
struct RecordObserve : Base {
  template <class Next>
  decltype(auto) around_phase(ikebana::Phase phase, Next&& next) {
    static const char* names[] = {"data", "forward", "backward", "optimizer"};
    return this->around(names[int(phase)],
                        [&]() -> decltype(auto) { return Base::around_phase(phase, next); });
  }
};
template <class Base>
struct RecordCapture : Base {
  template <class Core, class Batch, class Next>
  ikebana::Loss around_microbatch(Core& core, const Batch& microbatch, Next&& next) {
    return this->around("around_microbatch",
                        [&] { return Base::around_microbatch(core, microbatch, next); });
  }
  template <class Core, class Next>
  void around_gradients(Core& core, Next&& next) {
    this->around("around_gradients", [&] { Base::around_gradients(core, next); });
  }
};
template <class Base>
struct RecordShard : Base {
  void finish_reductions(const ikebana::Masters& masters) {
    this->ask("finish_reductions");
    Base::finish_reductions(masters);
  }
  void set_requires_gradient_sync(bool last) {
    this->ask(last ? "set_requires_gradient_sync(last" : "set_requires_gradient_sync(");
    Base::set_requires_gradient_sync(last);
  }
};
template <class Base>
struct RecordAccept : Base {
  template <class Ranks>
  void accept(ikebana::StepGradients& gradients, const ikebana::LossValue& loss, Ranks& ranks,
              ikebana::detail::DeferredCheck& deferred) {
    this->ask("accept");
    Base::accept(gradients, loss, ranks, deferred);
  }
};
template <class Base>
struct RecordPrecision : RecordAccept<Base> {
  template <class Next>
  decltype(auto) around_forward(Next&& next) {
    return this->around("around_forward",
                        [&]() -> decltype(auto) { return Base::around_forward(next); });
  }
  at::Tensor scale(const at::Tensor& seed) { return this->ask("scale"), Base::scale(seed); }
  void unscale(ikebana::StepGradients& gradients) {
    this->ask("unscale");
    Base::unscale(gradients);
  }
};
template <class Base>
struct RecordAccumulate : Base {
  template <class Batch>
  auto split(const Batch& batch) {
    this->ask("split");
    return Base::split(batch);
  }
};
template <class Base>
struct RecordObjective : Base {
  template <class Run, class Model, class Batch>
  ikebana::Loss loss(Run& run, Model& model, const Batch& batch) {
    return this->around("loss", [&] { return Base::loss(run, model, batch); });
  }
  template <class Model, class Batch>
  auto count(Model& model, const Batch& batch)
    requires requires(Base& base) { base.count(model, batch); }
  {
    this->ask("count");
    return Base::count(model, batch);
  }
};
template <class Base>
struct RecordClip : RecordAccept<Base> {
  template <class Ranks>
  void clip(ikebana::StepGradients& gradients, Ranks& ranks) {
    this->ask("clip");
    Base::clip(gradients, ranks);
  }
};
template <class Base>
struct RecordOptimizer : Base {
  void update(const ikebana::Masters& masters, ikebana::StepGradients& gradients) noexcept {
    this->note("update");
    Base::update(masters, gradients);
  }
};
template <class Base>
struct RecordAverage : Base {
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters& parameters, Next&& next) {
    return this->around("around_evaluation", [&]() -> decltype(auto) {
      return Base::around_evaluation(parameters, next);
    });
  }
};
template <class Base>
struct RecordFreeze : Base {
  void freeze(const ikebana::UnitTable& units) {
    this->ask("freeze");
    Base::freeze(units);
  }
};
template <class Base>
struct RecordPlace : Base {
  template <class Batch>
  Batch place(const Batch& batch, c10::Device device) {
    this->ask("place");
    return Base::place(batch, device);
  }
};

}  // namespace test
