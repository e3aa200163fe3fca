#pragma once
// Reads the memory in use at every point of a step: between its phases, and before and after each
// unit's forward and backward.
#include <functional>
#include <ikebana/advice/summary.hpp>

namespace ikebana {

namespace detail {

/// The policy with which `estimate` observes a recipe.
struct MarkMemory {
  using axis = ikebana::axis::observe;
  MemoryMarks* marks = nullptr;
};

}  // namespace detail

template <>
struct Mechanism<detail::MarkMemory> : ObserveHooks {
  static constexpr bool listens_to_backward = true;
  detail::MarkMemory values;
  explicit Mechanism(detail::MarkMemory v) : values(v) {}

  void attach(c10::Device device, const UnitTable& table);
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core& core, const Batch& batch, Next&& next) {
    if constexpr (std::decay_t<decltype(core.mechanisms)>::moves_parameters)
      gathered_ = [&core] { return detail::gathered_bytes(core); };
    marks().intervals.clear();
    marks().activations.begin_step();
    marks().gathered = 0;
    marks().counter.reset_peak();
    auto report = next();
    detail::Summary(marks(), detail::view_of(core)).add(detail::batch_view(batch).tensors, report);
    return report;
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    struct End {
      Mechanism* own;
      Phase phase;
      ~End() { own->end_phase(phase); }
    };
    phase_ = phase, unit_ = 0;
    marks().mark(phase, 0);
    if (phase == Phase::Forward) {
      marks().activations.begin_forward(without_gathered(), table_->units().size());
    }
    const End end{this, phase};
    return next();
  }
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit& unit, Next&& next, Args&&... args) {
    struct End {
      Mechanism* own;
      const Unit* unit;
      std::size_t outer;
      detail::UnitActivations::Outer bytes;
      ~End() {
        own->enter();
        own->unit_ = outer;
        own->marks().activations.end_unit(unit->index, own->without_gathered(), bytes);
      }
    };
    enter();
    const End end{this, &unit, std::exchange(unit_, unit.index),
                  marks().activations.begin_unit(without_gathered())};
    return next(std::forward<Args>(args)...);
  }
  void before_unit_backward(const Unit& unit) { enter(), unit_ = unit.index; }
  void after_unit_backward(const Unit& unit);
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate&) {
    marks().gradients = detail::gradient_bytes(masters, gradients, table_->units().size());
  }

 private:
  /// Throws BadModel for a model that was made before: its parameters have memory, which operators
  /// without values leave as they are.
  static void check_is_new(const UnitTable& table);
  detail::MemoryMarks& marks() { return *values.marks; }

  void enter();
  std::int64_t gathered_now() const { return gathered_ ? gathered_() : 0; }
  std::int64_t without_gathered() { return marks().now() - gathered_now(); }
  void end_phase(Phase phase);
  const UnitTable* table_ = nullptr;
  Phase phase_ = Phase::Data;
  std::size_t unit_ = 0;
  std::function<std::int64_t()> gathered_;  // set if parameters move
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/estimate/impl/marks.ipp>
#endif
