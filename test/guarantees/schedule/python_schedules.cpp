// Tests that schedules have the rates and momenta of PyTorch's recursions, over 80 steps.
#include <functional>

#include "guarantees/guarantees.hpp"
#include "python_rates.hpp"

namespace guarantees::python {

double relative(double mine, double theirs) {
  return mine == theirs ? 0 : std::abs(mine - theirs) / std::abs(theirs);
}
/// Returns the largest relative difference from the values of PyTorch, of rates and of momenta.
double apart(const auto& schedule, const Values& of) {
  const Mechanism<std::decay_t<decltype(schedule)>> mechanism(schedule);
  double worst = 0;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double momentum = of.momenta.empty() ? 0.9 : of.momenta[i];
    worst = std::max({worst, relative(mechanism.rate(0.1, steps[i]), of.rates[i]),
                      relative(mechanism.momentum(0.9, steps[i]), momentum)});
  }
  return worst;
}

TEST_CASE("schedules: closed forms equal the recursions of PyTorch") {
  REQUIRE(steps.back() == 79);
  CHECK(apart(ExponentialLR{.gamma = 0.97}, exponential) < 1e-13);
  CHECK(apart(MultiStepLR{.milestones = {3, 20, 20, 41}, .gamma = 0.5}, multi_step) == 0);
  CHECK(apart(PolynomialLR{.total_iters = 50, .power = 1.7}, polynomial) < 1e-13);
  CHECK(apart(CosineAnnealingWarmRestarts{.T_0 = 7, .T_mult = 2, .eta_min = 1e-3}, restarts) == 0);
  CHECK(apart(CosineAnnealingWarmRestarts{.T_0 = 9}, equal_restarts) == 0);
  CHECK(apart(ExponentialLR{.gamma = 0.971}, exponential) > 1e-3);
}

TEST_CASE("schedules: OneCycleLR has the bits of PyTorch's rates and momenta") {
  CHECK(apart(OneCycleLR{.max_lr = 0.4, .total_steps = 80}, one_cycle) == 0);
  CHECK(apart(OneCycleLR{.max_lr = 0.4, .epochs = 8, .steps_per_epoch = 10, .pct_start = 0},
              epochs) == 0);
  CHECK(apart(OneCycleLR{.max_lr = 0.4, .total_steps = 80, .pct_start = 1, .cycle_momentum = false},
              rising) == 0);
  CHECK(apart(OneCycleLR{.max_lr = 0.4,
                         .total_steps = 80,
                         .pct_start = 0.35,
                         .anneal_strategy = OneCycleLR::linear,
                         .base_momentum = 0.7,
                         .max_momentum = 0.9,
                         .div_factor = 10,
                         .final_div_factor = 100,
                         .three_phase = true},
              three_phases) == 0);
  OneCycleLR of_group{.total_steps = 80};  // the group's lr is the maximum
  const Mechanism<OneCycleLR> mechanism(of_group);
  for (std::size_t i = 0; i < steps.size(); ++i)
    CHECK(mechanism.rate(0.4, steps[i]) == one_cycle.rates[i]);
}

TEST_CASE("schedules: CyclicLR has the bits of PyTorch's rates and momenta in all modes") {
  using C = CyclicLR;
  const C plain{.base_lr = 0.01, .max_lr = 0.3, .step_size_up = 4};
  auto changed = [&](auto change) {
    C other = plain;
    change(other);
    return other;
  };
  CHECK(apart(changed([](C& c) { c.step_size_up = 6, c.step_size_down = 9; }), triangular) == 0);
  CHECK(apart(changed(
                  [](C& c) { c.step_size_up = 8, c.mode = C::triangular2, c.base_momentum = 0.5; }),
              triangular2) == 0);
  CHECK(apart(changed([](C& c) {
                c.step_size_up = 5, c.step_size_down = 7, c.mode = C::exp_range, c.gamma = 0.98;
              }),
              exp_range) == 0);
  CHECK(apart(changed([](C& c) { c.step_size_down = 0, c.cycle_momentum = false; }), sawtooth) ==
        0);
  CHECK(apart(changed([](C& c) { c.scale_fn = [](double x) { return 1 / x; }; }), by_cycle) == 0);
  CHECK(apart(changed([](C& c) {
                c.scale_fn = [](double x) { return 1 / (1 + x); }, c.scale_mode = C::iterations;
              }),
              by_step) == 0);
  C of_optimizer = plain;
  of_optimizer.base_lr.reset();
  CHECK(Mechanism<C>(of_optimizer).rate(0.01, 3) == Mechanism<C>(plain).rate(5, 3));
}

TEST_CASE("schedules: SequentialLR and ChainedScheduler equal PyTorch's") {
  CHECK(apart(
            SequentialLR<LinearLR, CosineAnnealingLR, ExponentialLR>{
                .schedules = {{.start_factor = 0.2, .total_iters = 8},
                              {.T_max = 20, .eta_min = 1e-3},
                              {.gamma = 0.95}},
                .milestones = {12, 40}},
            sequential) < 1e-13);
  CHECK(apart(SequentialLR{std::tuple{MultiStepLR{.milestones = {0, 2, 5}, .gamma = 0.5},
                                      CosineAnnealingWarmRestarts{.T_0 = 6},
                                      PolynomialLR{.total_iters = 30, .power = 2}},
                           {13, 34}},
              restarted) < 1e-13);
  CHECK(apart(ChainedScheduler{std::tuple{
                  ConstantLR{.factor = 0.5, .total_iters = 5}, ExponentialLR{.gamma = 0.97},
                  MultiStepLR{.milestones = {10, 30}, .gamma = 0.5},
                  StepLR{.step_size = 25, .gamma = 0.3}, PolynomialLR{.total_iters = 100}}},
              chained) < 1e-13);
  CHECK(apart(
            ChainedScheduler<LinearLR, CosineAnnealingLR>{
                .schedules = {{.start_factor = 0.2, .total_iters = 10}, {.T_max = 100}}},
            chained_cosine) < 1e-13);
}

/// Returns the rates or momenta of ten steps, which a warm-up of four precedes.
std::vector<double> after_four(const auto& schedule, bool momenta = false) {
  auto later = schedule;
  later.warmup_steps = 4;
  const Mechanism<std::decay_t<decltype(schedule)>> mechanism(later);
  std::vector<double> all;
  for (std::int64_t s = 0; s < 10; ++s)
    all.push_back(momenta ? mechanism.momentum(0.9, s) : mechanism.rate(8, s));
  return all;
}
using Rates = std::vector<double>;

TEST_CASE("schedules: a warm-up comes before the steps that a schedule counts") {
  CHECK(after_four(ExponentialLR{.gamma = 0.5}) == Rates{2, 4, 6, 8, 8, 4, 2, 1, 0.5, 0.25});
  CHECK(after_four(MultiStepLR{.milestones = {1, 3}, .gamma = 0.5}) ==
        Rates{2, 4, 6, 8, 8, 4, 4, 2, 2, 2});
  CHECK(after_four(PolynomialLR{.total_iters = 4}) == Rates{2, 4, 6, 8, 8, 6, 4, 2, 0, 0});
  CHECK(after_four(CosineAnnealingWarmRestarts{.T_0 = 1}) == Rates{2, 4, 6, 8, 8, 8, 8, 8, 8, 8});
  CHECK(after_four(SequentialLR<StepLR, ConstantLR>{
            .schedules = {{.step_size = 1, .gamma = 0.5}, {.factor = 0.25, .total_iters = 1}},
            .milestones = {3}}) == Rates{2, 4, 6, 8, 8, 4, 2, 2, 8, 8});
  CHECK(after_four(ChainedScheduler<StepLR, StepLR>{
            .schedules = {{.step_size = 1, .gamma = 0.5}, {.step_size = 2, .gamma = 0.5}}}) ==
        Rates{2, 4, 6, 8, 8, 4, 1, 0.5, 0.125, 0.0625});
}

TEST_CASE("schedules: a warm-up of OneCycleLR and CyclicLR rises to their own first rate") {
  OneCycleLR one{.max_lr = 32, .total_steps = 6, .anneal_strategy = OneCycleLR::linear};
  one.pct_start = 0.5, one.base_momentum = 0.5, one.max_momentum = 0.75, one.div_factor = 8;
  CHECK(after_four(one)[0] == 1);
  CHECK(after_four(one)[3] == 4);
  CHECK(after_four(one)[4] == 4);
  CHECK(after_four(one)[6] == 32);
  CHECK(after_four(one, true)[3] == 0.75);
  CHECK(after_four(one, true)[6] == 0.5);
  const CyclicLR cyclic{.base_lr = 4, .max_lr = 8, .step_size_up = 2};
  CHECK(after_four(cyclic) == Rates{1, 2, 3, 4, 4, 6, 8, 6, 4, 6});
}

std::string error_of(const auto& schedule) {
  return test::message_of<BadValue>(
      [&] { Mechanism<std::decay_t<decltype(schedule)>> mechanism(schedule); });
}
bool says(const auto& schedule, const char* words) {
  return test::contains(error_of(schedule), words);
}

TEST_CASE("schedules: what has no default must be given, and values must make sense") {
  CHECK(says(ExponentialLR{}, "gamma is not given"));
  CHECK(says(MultiStepLR{}, "milestones is not given"));
  CHECK(says(MultiStepLR{.milestones = {5, 2}}, "increasing order"));
  CHECK(says(MultiStepLR{.milestones = {-1, 2}}, "from 0 on"));
  CHECK(says(MultiStepLR{.milestones = {1}, .gamma = -1}, "gamma must not be negative"));
  CHECK(says(PolynomialLR{}, "total_iters is not given"));
  CHECK(says(PolynomialLR{.total_iters = 5, .power = -1}, "power must not be negative"));
  CHECK(says(CosineAnnealingWarmRestarts{}, "T_0 is not given"));
  CHECK(says(CosineAnnealingWarmRestarts{.T_0 = 5, .T_mult = 0}, "T_mult must be 1 or more"));
  CHECK(says(CosineAnnealingWarmRestarts{.T_0 = 5, .eta_min = -1}, "must not be negative"));
  CHECK(says(CosineAnnealingWarmRestarts{.T_0 = 5, .warmup_steps = -1}, "warmup_steps is -1"));
  CHECK(says(CyclicLR{}, "max_lr is not given"));
  CHECK(says(CyclicLR{.base_lr = -1, .max_lr = 1}, "base_lr must not be negative"));
  CHECK(says(CyclicLR{.max_lr = 1, .step_size_up = 0}, "step_size_up must be 1 or more"));
  CHECK(says(CyclicLR{.max_lr = 1, .gamma = -1}, "gamma must not be negative"));
  CHECK(says(CyclicLR{.max_lr = 1, .max_momentum = 1}, "must lie in [0, 1)"));
}

TEST_CASE("schedules: OneCycleLR needs a number of steps, and phases that fit into it") {
  CHECK(says(OneCycleLR{}, "the number of steps is not given"));
  CHECK(says(OneCycleLR{.epochs = 3}, "the number of steps is not given"));
  CHECK(says(OneCycleLR{.total_steps = 30, .epochs = 3, .steps_per_epoch = 9},
             "total_steps is not epochs * steps_per_epoch"));
  CHECK(says(OneCycleLR{.total_steps = -1}, "must not be negative"));
  CHECK(says(OneCycleLR{.max_lr = 0, .total_steps = 9}, "max_lr must be positive"));
  CHECK(says(OneCycleLR{.total_steps = 9, .pct_start = 1.5}, "pct_start must lie in [0, 1]"));
  CHECK(says(OneCycleLR{.total_steps = 10, .pct_start = 0.1}, "Write a larger pct_start"));
  CHECK(says(OneCycleLR{.total_steps = 9, .pct_start = 0.7, .three_phase = true}, "0.5"));
  CHECK(says(OneCycleLR{.total_steps = 9, .base_momentum = -1}, "must lie in [0, 1)"));
  CHECK(says(OneCycleLR{.total_steps = 9, .div_factor = 0}, "must be positive"));
  CHECK(error_of(OneCycleLR{.epochs = 3, .steps_per_epoch = 9}) == "");
}

TEST_CASE("schedules: values that change between steps are obeyed, also within other schedules") {
  Mechanism<SequentialLR<StepLR, LambdaLR>> mechanism(
      {.schedules = {{.step_size = 1, .gamma = 0.5}, {.lr_lambda = [](std::int64_t) { return 1; }}},
       .milestones = {3}});
  auto& [step, lambda] = mechanism.values.schedules;
  step.gamma = 0.25;
  CHECK(mechanism.rate(8, 1) == 2);
  lambda.lr_lambda = [](std::int64_t s) { return 1 + static_cast<double>(s); };
  CHECK(mechanism.rate(8, 4) == 16);
  mechanism.values.milestones = {1};
  CHECK(mechanism.rate(8, 4) == 32);
  step.step_size = 0;
  CHECK(test::contains(test::message_of<BadValue>([&] { mechanism.rate(8, 4); }), "step_size"));
  CHECK(mechanism.describe() ==
        "schedules={StepLR{step_size=0, gamma=0.25, warmup_steps=0}, LambdaLR{lr_lambda, "
        "warmup_steps=0}}, milestones={1}, warmup_steps=0");
}

}  // namespace guarantees::python
