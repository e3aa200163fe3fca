// Tests schedules of parameter groups, and schedules of the momentum.
#include "test.hpp"

#include <thread>

#include "guarantees/optimizer/group_values.hpp"

namespace guarantees::group_schedules {

using namespace group_values;

TEST_CASE("group schedules: a group's schedule is in place of the recipe's") {
  const LinearLR of_group{.start_factor = 0.5, .end_factor = 0, .total_iters = 8};
  const CosineAnnealingLR of_recipe{.T_max = 7};
  const Mechanism<LinearLR> linear(of_group);
  const Mechanism<CosineAnnealingLR> cosine(of_recipe);
  All::each([&]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Policy policy = lively<Policy>();
    Alone<Policy> own(policy), plain(policy);
    policy.groups = {{.match = named(chosen), .schedule = of_group}};
    Alone<Policy> grouped(policy);
    for (int s = 0; s < 5; ++s) {
      grouped.step_at(StepRate(cosine, s), grouped.gradients(s));
      own.step_at(StepRate(linear, s), own.gradients(s));
      plain.step_at(StepRate(cosine, s), plain.gradients(s));
    }
    check_apart(grouped.state(), own.state(), plain.state());
  });
}

TEST_CASE("group schedules: a schedule changes the momentum, and the first of two betas") {
  const Ramp ramp(MomentumRamp{.from = 0.3});
  using WithMomentum = Choices<AdamW, Adam, SGD, Lion, Muon, SparseAdam, AdamW8bit, RMSprop, NAdam,
                               RAdam, Adamax, LAMB>;
  WithMomentum::each([&]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (bool on_device : {false, true}) {
      Policy policy = lively<Policy>(), grouped = policy;
      if constexpr (requires { policy.otherwise; }) policy.otherwise.lr = 0;
      grouped.groups = {{.match = named(chosen), .schedule = MomentumRamp{.from = 0.3}}};
      Alone<Policy> scheduled(policy), of_group(grouped), by_hand(policy);
      for (auto* alone : {&scheduled, &of_group, &by_hand})
        if (on_device) alone->as_elsewhere();
      for (int s = 0; s < 6; ++s) {
        const double now = ramp.momentum(0, s);
        if constexpr (requires { policy.betas; }) by_hand.values().betas[0] = now;
        else by_hand.values().momentum = now;
        scheduled.step_at(StepRate(ramp, s), scheduled.gradients(s));
        of_group.step_at(StepRate(Mechanism<ConstantLR>(ConstantLR{}), s), of_group.gradients(s));
        by_hand.step(by_hand.gradients(s));
      }
      CHECK(test::same_bits(scheduled.state()[chosen], by_hand.state()[chosen]));
      CHECK(test::same_bits(of_group.state()[chosen], by_hand.state()[chosen]));
    }
  });
}

TEST_CASE(
    "group schedules: a momentum that a schedule raises from 0 gets its buffer, and resumes") {
  const Ramp ramp(MomentumRamp{});
  for (double dampening : {0.0, 0.5}) {
    const SGD sgd{.lr = 0.1, .dampening = dampening};
    Alone<SGD> whole(sgd), by_hand(sgd);
    for (int s = 0; s < 7; ++s) {
      by_hand.values().momentum = ramp.momentum(0, s);
      whole.step_at(StepRate(ramp, s), whole.gradients(s));
      by_hand.step(by_hand.gradients(s));
      CHECK(test::same_bits(whole.masters.values, by_hand.masters.values));
      CHECK(whole.state().count("ikebana.optimizer.lonely.momentum_buffer") == (s > 0 ? 1 : 0));
    }
  }
  for (int midway : {1, 3}) {
    const SGD sgd{.lr = 0.1};
    Alone<SGD> whole(sgd), other(sgd), used(sgd);
    auto step = [&](Alone<SGD>& one, int s) { one.step_at(StepRate(ramp, s), one.gradients(s)); };
    for (int s = 0; s < 6; ++s) step(used, s);
    for (int s = 0; s < midway; ++s) step(whole, s);
    other.restore(whole.state()), used.restore(whole.state());
    for (int s = midway; s < 6; ++s) step(whole, s), step(other, s), step(used, s);
    CHECK(same_state(other.state(), whole.state()));
    CHECK(same_state(used.state(), whole.state()));
  }
}

TEST_CASE("group schedules: a schedule of a group needs the step, and one with a state is none") {
  Alone<AdamW> alone(
      AdamW{.groups = {{.match = named(chosen), .schedule = StepLR{.step_size = 2}}}});
  CHECK(test::contains(test::message_of<BadValue>([&] { alone.run(0, 1); }), "Pass a StepRate"));
  using ikebana::detail::depends_on_step_alone;
  static_assert(depends_on_step_alone<Mechanism<LambdaLR>> && depends_on_step_alone<Ramp>);
  static_assert(!depends_on_step_alone<Mechanism<ReduceLROnPlateau>>);
  static_assert(!std::constructible_from<GroupSchedule, AdamW>);
}

TEST_CASE("group schedules: a schedule that makes an impossible momentum is refused") {
  const Ramp ramp(MomentumRamp{.from = 1.5});
  Alone<AdamW> adamw(AdamW{});
  const Tensors gradients = adamw.gradients(0);
  CHECK(test::contains(
      test::message_of<BadValue>([&] { adamw.step_at(StepRate(ramp, 0), gradients); }),
      "makes the first beta 1.5 of 0.9"));
}

/// Returns the rate of the group in each of the next `steps` steps.
template <class Trainer>
std::vector<double> rates(Trainer& trainer, int steps) {
  std::vector<double> all;
  for (int s = 0; s < steps; ++s) all.push_back(trainer.step(at::ones({1})).learning_rates.front());
  return all;
}
SGD with_schedule(const GroupSchedule& schedule, double lr) {
  return {.momentum = 0.5, .groups = {{.match = named(chosen), .lr = lr, .schedule = schedule}}};
}
auto trainer_of(const SGD& sgd) { return Trainer{Shapes(at::kFloat), Pulls{}, sgd}; }

/// Schedules whose mechanisms remember what they were asked, or set the values of others.
const CyclicLR cyclic{.max_lr = 0.5, .step_size_up = 3};
const OneCycleLR one_cycle{.max_lr = 0.5, .total_steps = 50};
const SequentialLR<LinearLR, CyclicLR> sequence{.schedules = {{.total_iters = 2}, cyclic},
                                                .milestones = {2}};
template <class F>
void each_schedule(const F& f) {
  f("CyclicLR", GroupSchedule(cyclic));
  f("OneCycleLR", GroupSchedule(one_cycle));
  f("SequentialLR", GroupSchedule(sequence));
}

TEST_CASE("group schedules: copies of a group share nothing") {
  each_schedule([](const char* name, const GroupSchedule& schedule) {
    CAPTURE(name);
    auto alone = trainer_of(with_schedule(schedule, 0.1));
    const std::vector<double> expected = rates(alone, 8);
    auto one = trainer_of(with_schedule(schedule, 0.1));
    auto other = trainer_of(with_schedule(schedule, 0.2));
    std::vector<double> of_one;
    for (int s = 0; s < 8; ++s) of_one.push_back(rates(one, 1)[0]), rates(other, 1);
    CHECK(of_one == expected);
    SGD two = with_schedule(schedule, 0.1);
    two.groups.push_back({.match = named("linear_bias"), .lr = 0.3, .schedule = schedule});
    auto both = trainer_of(two);
    CHECK(rates(both, 8) == expected);
    Trainer in_backward{Shapes(at::kFloat), Pulls{}, InBackward<SGD>{two}};
    CHECK(rates(in_backward, 8) == expected);
  });
}

TEST_CASE("group schedules: a step that threw is made again with another lr of the group") {
  each_schedule([](const char* name, const GroupSchedule& schedule) {
    CAPTURE(name);
    auto trainer = trainer_of(with_schedule(schedule, 0.1));
    rates(trainer, 1);
    trainer.template get<SGD>().weight_decay = NAN;
    CHECK_THROWS_AS(rates(trainer, 1), BadValue);
    trainer.template get<SGD>().weight_decay = 0, trainer.template get<SGD>().lr = 0.3;
    trainer.template get<SGD>().groups[0].lr = 0.2;
    CHECK_NOTHROW(rates(trainer, 1));
  });
}

TEST_CASE("group schedules: trainers on two threads use copies of one group") {
  each_schedule([](const char*, const GroupSchedule& schedule) {
    auto first = trainer_of(with_schedule(schedule, 0.1));
    auto second = trainer_of(with_schedule(schedule, 0.2));
    std::vector<double> of_first, of_second;
    std::thread one([&] { of_first = rates(first, 30); });
    std::thread two([&] { of_second = rates(second, 30); });
    one.join(), two.join();
    auto again = trainer_of(with_schedule(schedule, 0.1));
    CHECK(of_first == rates(again, 30));
  });
}

TEST_CASE("group schedules: they are assigned, copied and moved as values") {
  GroupSchedule a = StepLR{.step_size = 1, .gamma = 0.5}, b = a, none;
  CHECK_FALSE(none);
  CHECK_FALSE(none.cycles_momentum());
  a = none;
  CHECK_FALSE(a);
  CHECK(b.rate(8, 2) == 2);
  a = std::move(b), b = a;
  CHECK(a.rate(8, 1) == 4);
  CHECK(b.rate(8, 1) == 4);
  CHECK(GroupSchedule(cyclic).cycles_momentum());
  CHECK(GroupSchedule(sequence).cycles_momentum());
}

}  // namespace guarantees::group_schedules
