#pragma once
#include <deque>
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/optimizer/group.hpp>

namespace ikebana {

/// Updates each parameter as soon as backward has its gradient, and frees that gradient at once: a
/// step never holds more than some gradients, so it saves a model's worth of memory. The update is
/// that of `optimizer`, to the bit. What it gives up: a step that throws in the middle of backward
/// has updated some parameters already. Refused with what must see all gradients before the first
/// update: clipping, FP16's loss scale, accumulation. A loss that is not finite updates nothing.
/// Source: torchtune's optimizer_in_bwd; Lv et al., LOMO, arXiv:2306.09782.
template <class Optimizer>
struct InBackward {
  Optimizer optimizer = {};
};

template <class Optimizer>
struct Mechanism<InBackward<Optimizer>> : Hooks {
  InBackward<Optimizer> values;
  explicit Mechanism(InBackward<Optimizer> v) : values(std::move(v)) {
    Mechanism<Optimizer>(values.optimizer);  // throws for what cannot be
  }

  double base_lr() const { return values.optimizer.lr; }
  void begin(const Masters& masters) {
    group_ = detail::chosen_groups(values.optimizer.groups, masters.names, masters.values,
                                   [](std::size_t) { return true; });
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      OwnOptimizer& one = all_.emplace_back(own_values(i), masters, i);
      one.mechanism.begin(one.masters);
      const at::Tensor& master = masters.values[i];
      if (master.requires_grad())
        hooks_.emplace_back(master, [this, &one](const at::Tensor&) { arrived(one); });
    }
  }
  template <class Rate>
  void before_backward(const LossValue& loss, std::size_t microbatches, const Rate& rate) {
    if (microbatches != 1)
      throw BadBatch(
          "InBackward: the step has " + std::to_string(microbatches) +
          " microbatches, and gradients are gone after the first. Give one batch a step, "
          "or write the optimizer without InBackward.");
    if (!loss.readable()) found_inf_ = loss.non_finite();
    else if (!loss.is_finite()) return;  // precision says so, and nothing is updated
    rate_ = rate;
    is_open_ = true;
  }
  /// True where gradients came and went.
  bool has_updated() const { return has_updated_; }
  /// What a hook did not see, such as a parameter that is trained from now on.
  template <class Rate>
  void prepare(const Masters&, StepGradients& gradients, const Rate& rate) {
    is_open_ = false;
    for (std::size_t k = 0; k < gradients.indices.size(); ++k)
      prepare(all_[gradients.indices[k]], gradients.values[k], gradients.found_inf, rate);
  }
  void update(const Masters&, StepGradients& gradients) noexcept {
    for (std::size_t i : gradients.indices) all_[i].update();
  }
  void end_step(const StepGradients&, Report&) noexcept { close(); }
  void abort() noexcept {
    close();
    for (OwnOptimizer& one : all_) one.mechanism.abort();
  }
  std::string describe() const { return Mechanism<Optimizer>(values.optimizer).describe(); }
  void state(Archive& archive, const Masters&) {
    for (OwnOptimizer& one : all_) {
      one.mechanism.values = own_values(one.index);
      for (Group& group : one.mechanism.values.groups)  // their numbers are saved once, below
        group.lr.reset(), group.weight_decay.reset();
      one.mechanism.state(archive, one.masters);
    }
    detail::save_groups(archive, values.optimizer.groups);
    if (!archive.loading() || all_.empty()) return;
    auto groups = std::move(values.optimizer.groups);
    values.optimizer = all_[0].mechanism.values;
    values.optimizer.groups = std::move(groups);
  }

 private:
  /// One parameter, with an optimizer of its own.
  struct OwnOptimizer {
    std::size_t index;
    Masters masters;
    Mechanism<Optimizer> mechanism;
    StepGradients gradients;

    OwnOptimizer(Optimizer own, const Masters& all, std::size_t i)
        : index(i),
          masters{{all.names[i]}, {all.values[i]}, all.rounding, all.first + i},
          mechanism(std::move(own)) {}
    void update() noexcept {
      mechanism.update(masters, gradients);
      gradients.values.clear();
    }
  };

  template <class Rate>
  void prepare(OwnOptimizer& one, const at::Tensor& gradient, const at::Tensor& found_inf,
               const Rate& rate) {
    one.gradients.indices = {0};
    one.gradients.values = {gradient};
    one.gradients.found_inf = found_inf;
    one.mechanism.values = own_values(one.index);
    one.mechanism.prepare(one.masters, one.gradients, rate);
  }
  void arrived(OwnOptimizer& one) {
    if (!is_open_) return;  // somebody else's backward
    at::Tensor& gradient = one.masters.values[0].mutable_grad();
    prepare(one, gradient, found_inf_, rate_);
    one.update();
    gradient.reset();
    has_updated_ = true;
  }
  void close() noexcept {
    is_open_ = has_updated_ = false;
    found_inf_.reset();
  }
  /// With the parameter's own group alone.
  Optimizer own_values(std::size_t i) const {
    Optimizer own = values.optimizer;
    if (own.groups.empty()) return own;
    own.groups.clear();
    if (group_[i] < values.optimizer.groups.size())
      own.groups.push_back(values.optimizer.groups[group_[i]]);
    return own;
  }

  std::vector<std::size_t> group_;  // of each master; their number: none
  std::deque<OwnOptimizer> all_;
  std::deque<bridge::PostAccumulateHook> hooks_;
  std::function<double(double)> rate_;
  at::Tensor found_inf_;
  bool is_open_ = false, has_updated_ = false;
};

}  // namespace ikebana
