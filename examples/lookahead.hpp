#pragma once
// Defines a policy that wraps another: Lookahead<AdamW> lets AdamW take k steps, then moves the
// weights back towards where they were before. Source: Zhang et al., arXiv:1907.08610.
#include <ikebana.hpp>

/// Around any optimizer that updates by elements. Cost: one more copy of the weights; and copies of
/// weights and state during each update, since it does not undo an update by itself. As moments,
/// the former weights stay when others are loaded by `load_weights`: do that before the first step.
template <class Optimizer>
struct Lookahead {
  using axis = ikebana::axis::optimizer;
  Optimizer optimizer = {};
  std::int64_t k = 5;
  double alpha = 0.5;
};

template <class Optimizer>
struct ikebana::Mechanism<Lookahead<Optimizer>> : ikebana::OptimizerHooks {
  static_assert(!Mechanism<Optimizer>::updates_in_backward,
                "Lookahead: the update must be one call.");
  static constexpr bool by_elements = true;  // what it does itself; the optimizer checks the rest
  Lookahead<Optimizer> values;
  explicit Mechanism(Lookahead<Optimizer> v) : values(std::move(v)), inner_(values.optimizer) {
    check();
  }
  // Every hook that an optimizer is asked is passed on: one that is forgotten would do nothing.
  void attach(c10::Device device, const UnitTable& units) { inner_.attach(device, units); }
  void begin(const Masters& masters) {
    inner_.begin(masters);
    slow_.resize(masters.values.size());
  }
  double base_lr() const { return inner_.base_lr(); }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check();
    inner_.values = values.optimizer;  // a user may have changed it
    inner_.prepare(masters, gradients, rate);
  }
  void update(const Masters& masters, StepGradients& gradients) {
    for (std::size_t i : gradients.indices)
      if (!slow_[i].defined()) slow_[i] = masters.values[i].clone();
    inner_.update(masters, gradients);
    if (++updates_ % values.k != 0) return;
    for (std::size_t i = 0; i < slow_.size(); ++i)
      if (slow_[i].defined())
        masters.values[i].copy_(slow_[i].lerp_(masters.values[i], values.alpha));
  }
  void after_update(const Masters& masters, const StepGradients& gradients) noexcept {
    inner_.after_update(masters, gradients);
  }
  void end_step(const StepGradients& gradients, Report& report) noexcept {
    inner_.end_step(gradients, report);
  }
  void abort() noexcept { inner_.abort(); }
  void end_epoch(const Epoch& epoch) { inner_.end_epoch(epoch); }
  std::string describe() const {
    return "k=" + std::to_string(values.k) + ", " + inner_.describe();
  }
  void state(Archive& archive, const Masters& masters) {
    archive.number("updates", updates_, &ikebana::count_range);
    for (std::size_t i = 0; i < slow_.size(); ++i)
      archive.rows_of(masters.slices, i, [&] {
        archive.optional(masters.names[i] + ".slow", slow_[i], masters.values[i]);
      });
    inner_.values = values.optimizer;
    archive.within("optimizer", [&] { inner_.state(archive, masters); });
    values.optimizer = inner_.values;  // it loads a learning rate
  }

 private:
  void check() const {
    if (values.k < 1) throw BadValue("Lookahead: k must be 1 or more.");
    if (!(values.alpha > 0 && values.alpha <= 1))
      throw BadValue("Lookahead: alpha must lie in (0, 1].");
  }
  Mechanism<Optimizer> inner_;
  std::vector<at::Tensor> slow_;  // the slow weights of each master that has been updated
  std::int64_t updates_ = 0;
};
