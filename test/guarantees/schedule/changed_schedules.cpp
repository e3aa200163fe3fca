// Tests values of schedules that change between steps, the momentum that they cycle, and schedules
// of parameter groups.
#include "guarantees/guarantees.hpp"

namespace guarantees::changed {

using ikebana::detail::depends_on_step_alone;
using Net = torch::nn::Sequential;
const std::vector<Rows> data = class_batches(10, 6, 4, 3);
Net net() {
  return seeded([] { return Net(torch::nn::Linear(4, 3)); });
}

/// A changed field gives the values of a schedule that was made with it, and others than without.
template <class Policy, class... Changes>
void obeys(const Policy& policy, Changes... changes) {
  auto values = [](const Mechanism<Policy>& m) {
    std::vector<double> all;
    for (std::int64_t s = 0; s < 12; ++s)
      all.push_back(m.rate(0.5, s)), all.push_back(m.momentum(0.9, s));
    return all;
  };
  int which = 0;
  auto check = [&](auto change) {
    CAPTURE(which++);
    Policy changed = policy;
    change(changed);
    Mechanism<Policy> mechanism(policy);
    const auto before = values(mechanism);
    change(mechanism.values);
    CHECK(values(mechanism) == values(Mechanism<Policy>(changed)));
    CHECK(values(mechanism) != before);
  };
  (check(changes), ...);
}
const auto later = [](auto& v) { v.warmup_steps = 3; };

TEST_CASE("schedules: every field that changes between steps is obeyed") {
  obeys(ExponentialLR{.gamma = 0.9}, later, [](auto& v) { v.gamma = 0.8; });
  obeys(
      MultiStepLR{.milestones = {2, 5}}, later, [](auto& v) { v.gamma = 0.8; },
      [](auto& v) { v.milestones[0] = 4; });
  obeys(
      PolynomialLR{.total_iters = 9}, later, [](auto& v) { v.total_iters = 5; },
      [](auto& v) { v.power = 2; });
  obeys(
      CosineAnnealingWarmRestarts{.T_0 = 3}, later, [](auto& v) { v.T_0 = 4; },
      [](auto& v) { v.T_mult = 2; }, [](auto& v) { v.eta_min = 0.1; });
  obeys(
      OneCycleLR{.total_steps = 12}, [](auto& v) { v.max_lr = 2; },
      [](auto& v) { v.total_steps = 14; }, [](auto& v) { v.pct_start = 0.5; },
      [](auto& v) { v.anneal_strategy = v.linear; }, [](auto& v) { v.cycle_momentum = false; },
      [](auto& v) { v.base_momentum = 0.5; }, [](auto& v) { v.max_momentum = 0.5; },
      [](auto& v) { v.div_factor = 5; }, [](auto& v) { v.final_div_factor = 5; },
      [](auto& v) { v.three_phase = true; }, later);
  obeys(
      OneCycleLR{.epochs = 2, .steps_per_epoch = 6}, [](auto& v) { v.epochs = 3; },
      [](auto& v) { v.steps_per_epoch = 7; });
  obeys(
      CyclicLR{.base_lr = 0.1, .max_lr = 1, .step_size_up = 2, .gamma = 0.5},
      [](auto& v) { v.base_lr = 0.2; }, [](auto& v) { v.max_lr = 2; },
      [](auto& v) { v.step_size_up = 3; }, [](auto& v) { v.step_size_down = 3; },
      [](auto& v) { v.mode = v.triangular2; }, [](auto& v) { v.mode = v.exp_range; },
      [](auto& v) { v.cycle_momentum = false; }, [](auto& v) { v.base_momentum = 0.5; },
      [](auto& v) { v.max_momentum = 0.5; }, later);
  const StepLR step{.step_size = 2};
  obeys(ChainedScheduler<StepLR, StepLR>{.schedules = {step, step}}, later,
        [](auto& v) { std::get<1>(v.schedules).gamma = 0.5; });
  obeys(PerEpoch<StepLR>{.schedule = step}, later, [](auto& v) {
    v.schedule.warmup_steps = 0;
    v.warmup_steps = 2;
  });
}

/// Trains with a cycled momentum, and with one that is set by hand before each step.
template <class Optimizer, class Cycle, class Set>
void cycles_as_by_hand(Optimizer optimizer, const Cycle& cycle, const Set& set) {
  Cycle still = cycle;
  still.cycle_momentum = false;
  Trainer<Net, CrossEntropyLoss, Optimizer, Cycle> cycled{net(), optimizer, cycle},
      by_hand{net(), optimizer, still};
  const Mechanism<Cycle> values(cycle);
  for (std::size_t s = 0; s < data.size(); ++s) {
    set(by_hand.template get<Optimizer>(), values.momentum(0, static_cast<std::int64_t>(s)));
    const Report mine = cycled.step(data[s]), other = by_hand.step(data[s]);
    CHECK(mine.loss() == other.loss());
    CHECK(mine.learning_rates == other.learning_rates);
  }
  CHECK(test::same_bits(parameters_of(cycled.model()), parameters_of(by_hand.model())));
}

TEST_CASE("schedules: a cycled momentum is that of each step") {
  const OneCycleLR one{
      .total_steps = 12, .base_momentum = 0.3, .max_momentum = 0.9, .warmup_steps = 2};
  const CyclicLR cyclic{.max_lr = 0.5, .step_size_up = 3, .base_momentum = 0.3};
  auto momentum = [](auto& policy, double m) { policy.momentum = m; };
  auto beta = [](auto& policy, double m) { policy.betas[0] = m; };
  cycles_as_by_hand(SGD{.lr = 0.1, .momentum = 0.5}, one, momentum);
  cycles_as_by_hand(SGD{.lr = 0.1, .momentum = 0.5}, cyclic, momentum);
  cycles_as_by_hand(AdamW{.lr = 0.1}, one, beta);
}

TEST_CASE("schedules: the optimizer's own momentum stays, and a restored cycle goes on") {
  const OneCycleLR cycle{.total_steps = 10};
  auto made = [&] {
    return Trainer{net(), CrossEntropyLoss{}, SGD{.lr = 0.1, .momentum = 0.5}, cycle};
  };
  auto whole = made(), first = made(), second = made();
  for (std::size_t s = 0; s < data.size(); ++s) {
    if (s == 4) second.restore(first.state());
    (s < 4 ? first : second).step(data[s]), whole.step(data[s]);
  }
  CHECK(test::same_state(second.state(), whole.state()));
  CHECK(whole.get<SGD>().momentum == 0.5);
}

/// An optimizer of a user's own without a momentum.
struct Plain {
  using axis = ikebana::axis::optimizer;
  double lr = 0.1;
};

}  // namespace guarantees::changed

template <>
struct ikebana::Mechanism<guarantees::changed::Plain> : ikebana::OptimizerHooks {
  guarantees::changed::Plain values;
  double rate_of_step = 0;
  explicit Mechanism(guarantees::changed::Plain v) : values(v) {}
  double base_lr() const { return values.lr; }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate& rate) {
    rate_of_step = rate(values.lr);
  }
  void update(const Masters& masters, StepGradients& gradients) noexcept {
    for (std::size_t k = 0; k < gradients.indices.size(); ++k)
      masters.values[gradients.indices[k]].sub_(gradients.values[k], rate_of_step);
  }
};

namespace guarantees::changed {

TEST_CASE("schedules: an optimizer that asks for no momentum is an error of the first step") {
  Trainer trainer{net(), CrossEntropyLoss{}, Plain{}, OneCycleLR{.total_steps = 9}};
  const auto before = trainer.state();
  for (int twice = 0; twice < 2; ++twice)
    CHECK(test::contains(test::message_of<BadValue>([&] { trainer.step(data[0]); }),
                         "and the recipe's optimizer has neither momentum nor betas"));
  CHECK(test::same_state(trainer.state(), before));
  trainer.get<OneCycleLR>().cycle_momentum = false;
  CHECK(trainer.step(data[0]).learning_rate == doctest::Approx(0.1 / 25));
  trainer.get<OneCycleLR>().cycle_momentum = true;
  CHECK_THROWS_AS(trainer.step(data[0]), BadValue);
}

TEST_CASE("schedules: a group may have a cycle, or a sequence, but nothing that counts epochs") {
  const OneCycleLR cycle{.max_lr = 0.5, .total_steps = 10};
  using Sequence = SequentialLR<OneCycleLR, LinearLR>;
  const Sequence sequence{.schedules = {cycle, {.total_iters = 2}}, .milestones = {8}};
  static_assert(depends_on_step_alone<Mechanism<Sequence>>);
  static_assert(depends_on_step_alone<Mechanism<OneCycleLR>>);
  static_assert(!depends_on_step_alone<Mechanism<PerEpoch<StepLR>>>);
  static_assert(!depends_on_step_alone<Mechanism<ChainedScheduler<StepLR, PerEpoch<StepLR>>>>);
  auto trained = [](GroupSchedule of_group, auto of_recipe) {
    Trainer trainer{net(), CrossEntropyLoss{},
                    SGD{.lr = 0.1, .groups = {{.match = named("0.bias"), .schedule = of_group}}},
                    of_recipe};
    for (const Rows& batch : data) trainer.step(batch);
    return parameters_of(trainer.model());
  };
  const Tensors own = trained(cycle, cycle), none = trained({}, cycle);
  CHECK(test::same_bits(own, none));
  CHECK_FALSE(test::same_bits(trained(sequence, cycle), none));
  CHECK(GroupSchedule(sequence).cycles_momentum());
  CHECK_FALSE(GroupSchedule(StepLR{.step_size = 1}).cycles_momentum());
  CHECK(test::contains(test::message_of<BadValue>([&] {
                         Mechanism<Adagrad>(
                             {.groups = {{.match = one_dimensional, .schedule = cycle}}});
                       }),
                       "the schedule of a group has cycle_momentum, and Adagrad has neither"));
}

TEST_CASE("schedules: a recorded step whose schedule cycles the momentum is refused") {
  const ikebana::detail::RecordingScope recording;
  const OneCycleLR cycle{.total_steps = 10};
  const Mechanism<SequentialLR<LinearLR, OneCycleLR>> later_cycle(
      {.schedules = {{.total_iters = 2}, cycle}, .milestones = {8}});
  for (const auto& error :
       {test::message_of<BadValue>([&] { Mechanism<OneCycleLR>(cycle).momentum(0.9, 0); }),
        test::message_of<BadValue>([&] { later_cycle.momentum(0.9, 0); })})
    CHECK(test::contains(error, "cycles the momentum, which a replay would not change"));
  CHECK(Mechanism<StepLR>({.step_size = 1}).momentum(0.9, 0) == 0.9);
}

}  // namespace guarantees::changed
