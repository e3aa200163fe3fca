#pragma once
// The policy InBackward<AdamW> and its mechanism: updates during backward.
#include <deque>
#include <ikebana/bridge/gradients.hpp>
#include <ikebana/hooks.hpp>
#include <ikebana/hooks/step_rate.hpp>
#include <ikebana/hooks/update.hpp>
#include <ikebana/optimizer/group.hpp>

namespace ikebana {

/// Updates each parameter as soon as backward has computed its gradient, and frees that gradient at
/// once. A step holds the gradients of about one layer instead of all: it saves 4 bytes per FP32
/// parameter. Every update has the bits that `optimizer` alone computes. The price: a step that
/// throws in the middle of backward has already updated some parameters. Not allowed with policies
/// that need all gradients before the first update: clipping, FP16's loss scale, accumulation. If
/// the loss is not finite, nothing is updated. Source: torchtune's optimizer_in_bwd; Lv et al.,
/// LOMO, arXiv:2306.09782.
template <class Optimizer>
struct InBackward {
  Optimizer optimizer = {};  ///< the values of the optimizer
};
template <class Optimizer>
InBackward(Optimizer) -> InBackward<Optimizer>;

template <class Optimizer>
struct Mechanism<InBackward<Optimizer>> : OptimizerHooks {
  using carries_out = InBackward<Optimizer>;
  static constexpr bool takes_divisor = true;  // no recipe that allows this policy has a divisor
  static constexpr bool updates_in_backward = true;
  InBackward<Optimizer> values;
  explicit Mechanism(InBackward<Optimizer> v) : values(std::move(v)) {
    Mechanism<Optimizer>(values.optimizer);  // throws BadValue for invalid values
  }

  void attach(c10::Device device, const UnitTable& units) { device_ = device, units_ = &units; }
  double base_lr() const {
    if constexpr (requires { values.optimizer.lr; }) return values.optimizer.lr;
    else return Mechanism<Optimizer>(values.optimizer).base_lr();
  }
  template <class Rate, class Visit>
  void each_rate(const Rate& rate, const Visit& visit) const {
    detail::each_rate(Mechanism<Optimizer>(values.optimizer), rate, visit);
  }
  void begin(const Masters& masters) {
    group_ = groups_of(masters);
    if constexpr (has_groups) rules_.keep(values.optimizer.groups);
    masters_ = &masters;
    for (std::size_t i = 0; i < masters.values.size(); ++i) {
      OwnOptimizer& own = optimizers_.emplace_back(own_values(i), masters, i);
      own.mechanism.attach(device_, *units_);
      own.mechanism.begin(own.masters);
      const at::Tensor& master = masters.values[i];
      if (master.requires_grad())
        hooks_.emplace_back(master, [this, &own](const at::Tensor&) { update_now(own); });
    }
  }
  template <class Rate>
  void before_backward(const LossValue& loss, std::size_t microbatches, const Rate& rate) {
    if (microbatches != 1)
      throw BadBatch(
          "InBackward: the step has " + std::to_string(microbatches) +
          " microbatches, and gradients are freed after the first. Give each step one batch, or "
          "write the optimizer without InBackward.");
    check_groups();
    for (OwnOptimizer& own : optimizers_) own.mechanism.before_backward(loss, microbatches, rate);
    if (!loss.readable()) found_inf_ = loss.non_finite();
    else if (!loss.is_finite()) return;  // Precision throws, and nothing is updated
    rate_ = detail::KeptRate(rate);
    in_backward_ = true;
  }
  /// Returns true if a parameter was updated during this backward.
  bool has_updated() const { return has_updated_; }
  /// Prepares gradients without a hook, such as the gradient of a parameter that is trained from
  /// now on.
  template <class Rate>
  void prepare(const Masters&, StepGradients& gradients, const Rate& rate) {
    in_backward_ = false;
    if (has_updated_ && (gradients.divisor.defined() || detail::rejected(gradients)))
      throw BadModel(
          "InBackward: a policy of the recipe scales or rejects gradients, or the count of the "
          "loss was known only after backward, and the parameters were updated before. Write the "
          "optimizer without InBackward.");
    for (std::size_t k = 0; k < gradients.indices.size(); ++k)
      prepare(optimizers_[gradients.indices[k]], gradients.values[k], gradients.found_inf, rate);
  }
  void update(const Masters&, StepGradients& gradients) {
    for (std::size_t i : gradients.indices) optimizers_[i].update();
  }
  void end_step(const StepGradients&, Report&) noexcept { end_backward(); }
  void abort() noexcept {
    end_backward();
    for (OwnOptimizer& own : optimizers_) own.abort();
  }
  void end_epoch(const Epoch& epoch) {
    for (OwnOptimizer& own : optimizers_) own.mechanism.end_epoch(epoch);
  }
  std::string describe() const { return Mechanism<Optimizer>(values.optimizer).describe(); }
  void state(Archive& archive, const Masters&) {
    for (OwnOptimizer& own : optimizers_) {
      own.ask.settle(own.mechanism, own.masters);
      own.mechanism.values = own_values(own.index);
      if constexpr (has_groups)
        for (Group& group : own.mechanism.values.groups)  // their values are saved once, below
          group = {.match = group.match, .schedule = group.schedule};
      own.mechanism.state(archive, own.masters);
    }
    if constexpr (has_groups) detail::save_groups(archive, values.optimizer.groups);
    if (!archive.loading() || optimizers_.empty()) return;
    Optimizer former = std::exchange(values.optimizer, optimizers_[0].mechanism.values);
    if constexpr (has_groups) values.optimizer.groups = std::move(former.groups);
  }

 private:
  /// True for the library's optimizers; a user's own may be without groups.
  static constexpr bool has_groups =
      requires(Optimizer policy) { static_cast<std::vector<Group>&>(policy.groups); };

  std::vector<std::size_t> groups_of(const Masters& masters) const {
    if constexpr (!has_groups) return {};
    else
      return detail::group_of_each_parameter(values.optimizer.groups, masters,
                                             [](std::size_t) { return true; });
  }
  /// Throws BadValue if another rule was assigned by which a parameter changes its group.
  void check_groups() {
    if constexpr (has_groups) {
      const auto& groups = values.optimizer.groups;
      if (!rules_.changed(groups)) return;
      detail::check_unchanged(rules_.size() == groups.size() && groups_of(*masters_) == group_,
                              "InBackward: the group of a parameter");
      rules_.keep(groups);
    }
  }
  /// The optimizer of one parameter.
  struct OwnOptimizer {
    std::size_t index;
    Masters masters;
    Mechanism<Optimizer> mechanism;
    StepGradients gradients;
    detail::Update<Mechanism<Optimizer>> ask = {};

    OwnOptimizer(Optimizer policy, const Masters& all, std::size_t i)
        : index(i), masters(all.only(i)), mechanism(std::move(policy)) {}
    void update() {
      ask(mechanism, masters, gradients);
      ask.end_step();
      mechanism.after_update(masters, gradients);
      Report none;
      mechanism.end_step(gradients, none);
      gradients.values.clear();
    }
    void abort() noexcept {
      ask.abort(mechanism, masters);
      mechanism.abort();
    }
  };

  template <class Rate>
  void prepare(OwnOptimizer& own, const at::Tensor& gradient, const at::Tensor& found_inf,
               const Rate& rate) {
    own.gradients.indices = {0};
    own.gradients.values = {gradient};
    own.gradients.found_inf = found_inf;
    own.mechanism.values = own_values(own.index);
    own.ask.begin(own.mechanism, own.masters, own.gradients);
    own.mechanism.prepare(own.masters, own.gradients, rate);
  }
  void update_now(OwnOptimizer& own) {
    if (!in_backward_) return;  // a backward outside the trainer's step
    at::Tensor& gradient = own.masters.values[0].mutable_grad();
    prepare(own, gradient, found_inf_, rate_);
    own.update();
    gradient.reset();
    has_updated_ = true;
  }
  void end_backward() noexcept {
    in_backward_ = has_updated_ = false;
    found_inf_.reset();
  }
  /// Returns the policy's values, with the parameter's own group only.
  Optimizer own_values(std::size_t i) const {
    Optimizer policy = values.optimizer;
    if constexpr (has_groups) {
      if (policy.groups.empty()) return policy;
      policy.groups.clear();
      if (group_[i] < values.optimizer.groups.size())
        policy.groups.push_back(values.optimizer.groups[group_[i]]);
    }
    return policy;
  }

  std::vector<std::size_t> group_;  // the group of each master; the number of groups if it has no
                                    // group
  detail::GroupRules rules_;        // the rules from which `group_` was made
  const Masters* masters_ = nullptr;
  const UnitTable* units_ = nullptr;
  c10::Device device_{c10::kCPU};
  std::deque<OwnOptimizer> optimizers_;
  std::deque<bridge::PostAccumulateHook> hooks_;
  detail::KeptRate rate_;
  at::Tensor found_inf_;
  bool in_backward_ = false, has_updated_ = false;
};

}  // namespace ikebana
