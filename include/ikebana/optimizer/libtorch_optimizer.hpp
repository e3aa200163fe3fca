#pragma once
// Defines LibTorchOptimizer<torch::optim::RMSprop>: any optimizer that derives from
// torch::optim::Optimizer. It is not part of ikebana.hpp, because it includes all of LibTorch's
// optimizers.
#include <ikebana/hooks/update.hpp>
#include <ikebana/optimizer/group.hpp>
#include <ikebana/optimizer/libtorch/libtorch_run.hpp>

namespace ikebana {

/// An optimizer of LibTorch, or your own that derives from torch::optim::Optimizer. It gets the
/// true gradients, and its `step` is not called if the step is rejected. Before each step its
/// options are set to these, with the lr of the schedule and the values of the group. `groups` may
/// set the lr, and weight_decay, betas, eps and momentum if the options have them. Your own class
/// names its types, `using Options = ...; using ParamState = ...;`, and keeps everything that a
/// step changes in `state()`. `make` is for a constructor that does not take (parameter groups,
/// options). Cost: the cost of the optimizer, and a copy of all parameters and their state before
/// each update, by which a step is undone.
template <class Optimizer>
struct LibTorchOptimizer {
  /// The axis of this policy.
  using axis = ikebana::axis::optimizer;
  static_assert(std::derived_from<Optimizer, torch::optim::Optimizer>,
                "ikebana: the argument of LibTorchOptimizer must derive from "
                "torch::optim::Optimizer. Write e.g. LibTorchOptimizer<torch::optim::RMSprop>.");
  static_assert(detail::has_options<Optimizer>,
                "ikebana: LibTorchOptimizer must know the options of an optimizer. Write `using "
                "Options = YourOptions;` in its class, with a type derived from "
                "torch::optim::OptimizerCloneableOptions<YourOptions>.");
  /// True for LBFGS, which computes the loss several times in a step and is refused.
  static constexpr bool needs_closure = std::derived_from<Optimizer, torch::optim::LBFGS>;
  /// One call of `step` updates all parameters; InBackward is refused.
  static constexpr bool updates_several_at_once = true;
  /// The options of this optimizer.
  using Options = typename detail::options_of<Optimizer>::Options;
  /// The argument from which the optimizer is constructed.
  using ParamGroups = std::vector<torch::optim::OptimizerParamGroup>;

  Options options;                 ///< the values of parameters without a group
  std::vector<Group> groups = {};  ///< parameters with values of their own
  /// Makes the optimizer; if it is empty, the constructor does.
  std::function<std::unique_ptr<Optimizer>(const ParamGroups&, const Options&)> make = {};
};

template <class Optimizer>
struct Mechanism<LibTorchOptimizer<Optimizer>> : OptimizerHooks {
  using carries_out = LibTorchOptimizer<Optimizer>;
  static constexpr bool takes_divisor = true;
  LibTorchOptimizer<Optimizer> values;
  explicit Mechanism(LibTorchOptimizer<Optimizer> v) : values(std::move(v)) {
    check_types();
    check_values();
  }

  double base_lr() const { return detail::base_of(values.options).get_lr(); }
  template <class Rate, class Visit>
  void each_rate(const Rate& rate, const Visit& visit) const {
    for (std::size_t g = 0; g <= values.groups.size(); ++g)
      visit(rate_of(detail::group_at(values.groups, g), rate));
  }
  void begin(const Masters& masters) {
    for (std::size_t i = 0; i < masters.values.size(); ++i)
      detail::refuse_slice<LibTorchOptimizer<Optimizer>>(masters, i);
    rules_.keep(values.groups);
    const auto group =
        detail::group_of_each_parameter(values.groups, masters, [](std::size_t) { return true; });
    run_.begin(masters);
    std::vector<Tensors> members(rules_.size() + 1);
    for (std::size_t i = 0; i < group.size(); ++i) members[group[i]].push_back(run_.operand(i));
    typename LibTorchOptimizer<Optimizer>::ParamGroups given;
    for (std::size_t g = 0; g < members.size(); ++g) {
      if (members[g].empty()) continue;
      group_of_.push_back(g);
      given.emplace_back(std::move(members[g]), std::make_unique<Options>(values.options));
    }
    run_.take(made(given), given);
  }
  template <class Rate>
  void prepare(const Masters&, StepGradients& gradients, const Rate& rate) {
    check_values();
    detail::check_unchanged(!rules_.changed(values.groups),
                            "LibTorchOptimizer: the number or a rule of `groups`");
    gradients.apply_divisor();
    for (std::size_t k = 0; k < group_of_.size(); ++k)
      set(run_.optimizer().param_groups()[k].options(), group_of_[k], rate);
    set(run_.optimizer().defaults(), rules_.size(), rate);
    run_.prepare(gradients);
  }
  void update(const Masters&, StepGradients& gradients) { run_.update(gradients); }
  void end_step(const StepGradients&, Report&) noexcept { run_.end_step(); }
  void abort() noexcept { run_.abort(); }
  std::string describe() const { return detail::text_of(values.options); }
  void state(Archive& archive, const Masters&) {
    double lr = base_lr();
    archive.number("lr", lr);
    detail::base_of(values.options).set_lr(lr);
    if constexpr (decays) archive.number("weight_decay", values.options.weight_decay());
    detail::save_groups(archive, values.groups);
    run_.state(archive);
  }

 private:
  using Options = typename LibTorchOptimizer<Optimizer>::Options;
  static constexpr bool decays = requires(Options o) { o.weight_decay(0.0); };
  static constexpr bool has_eps = requires(Options o) { o.eps(0.0); };
  static constexpr bool has_momentum = requires(Options o) { o.momentum(0.0); };
  static constexpr bool has_betas = requires(Options o) { o.betas({0.0, 0.0}); };

  std::unique_ptr<Optimizer> made(const typename LibTorchOptimizer<Optimizer>::ParamGroups& given) {
    try {
      if (values.make) return values.make(given, values.options);
      if constexpr (std::constructible_from<Optimizer, decltype(given), Options>)
        return std::make_unique<Optimizer>(given, values.options);
    } catch (const c10::Error& error) {
      throw BadValue("LibTorchOptimizer: " + detail::type_name<Optimizer>() + " cannot be made: " +
                     detail::message_of(error) + ". Correct its options or `make`.");
    }
    throw BadValue("LibTorchOptimizer: " + detail::type_name<Optimizer>() +
                   " has no constructor from parameter groups and options. Give `make`.");
  }
  /// Sets the options of a group, or the optimizer's own, for this step.
  void set(torch::optim::OptimizerOptions& options, std::size_t g,
           const detail::RateRef& rate) const {
    auto* own = dynamic_cast<Options*>(&options);
    check(own != nullptr,
          "the optimizer has options of another type than `options`. Let `make` pass those on.");
    const Group& group = detail::group_at(values.groups, g);
    const detail::GroupRate scheduled(group.schedule, rate);
    *own = values.options;
    options.set_lr(rate_of(group, rate));
    if constexpr (decays) own->weight_decay(group.weight_decay.value_or(own->weight_decay()));
    if constexpr (has_eps) own->eps(group.eps.value_or(own->eps()));
    if constexpr (has_momentum)
      own->momentum(scheduled.momentum(group.momentum.value_or(own->momentum())));
    if constexpr (has_betas) {
      if (group.betas) own->betas({(*group.betas)[0], (*group.betas)[1]});
      own->betas({scheduled.momentum(std::get<0>(own->betas())), std::get<1>(own->betas())});
    }
  }
  double rate_of(const Group& group, const detail::RateRef& rate) const {
    const double lr = detail::GroupRate(group.schedule, rate)(group.lr.value_or(base_lr()));
    check(std::isfinite(lr) && lr >= 0,
          "the schedule makes the lr " + c10::str(lr) + "; it must be finite and not negative.");
    return lr;
  }
  /// Throws BadValue if the options or the state lack a function that LibTorch's base declares.
  void check_types() const {
    try {
      auto copy = detail::base_of(values.options).clone();
      copy->set_lr(copy->get_lr());
      if constexpr (detail::LibTorchRun<Optimizer>::keeps_state)
        bridge::values_of(detail::base_of(detail::param_state_t<Optimizer>()));
    } catch (const c10::Error& error) {
      throw BadValue("LibTorchOptimizer: the options or the state of " +
                     detail::type_name<Optimizer>() + ": " + detail::message_of(error));
    }
  }
  static void check(bool good, const std::string& what) {
    if (!good) throw BadValue("LibTorchOptimizer: " + what);
  }
  static void check_field(bool has_field, bool is_set, const std::string& name) {
    check(has_field || !is_set,
          "a group has a " + name + ", and the options have none. Leave it out.");
  }
  void check_values() const {
    check(std::isfinite(base_lr()) && base_lr() >= 0,
          "lr is " + c10::str(base_lr()) + "; it must be finite and not negative.");
    for (const Group& group : values.groups) {
      check(static_cast<bool>(group.match), "a group has no rule. Give one: named(\"*.bias\").");
      Group own = group;
      detail::each_value(own, [](const std::string& name, double value, const NumberRange& range) {
        check(range.has(value), "the " + name + " of a group is " + c10::str(value) +
                                    "; it must be " + range.text + ".");
      });
      check_field(decays, group.weight_decay.has_value(), "weight_decay");
      check_field(has_betas, group.betas.has_value(), "betas");
      check_field(has_eps, group.eps.has_value(), "eps");
      check_field(has_momentum, group.momentum.has_value(), "momentum");
      check(has_betas || has_momentum || !group.schedule.cycles_momentum(),
            "the schedule of a group has cycle_momentum, and the options have neither momentum nor "
            "betas. Write .cycle_momentum = false.");
    }
  }

  detail::GroupRules rules_;           // the rules when the trainer was made
  std::vector<std::size_t> group_of_;  // the parameter group of each parameter; the number of
                                       // groups: it is in no group
  detail::LibTorchRun<Optimizer> run_;
};

}  // namespace ikebana
