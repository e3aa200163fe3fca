// Tests schedules within others, schedules by epoch, and errors of steps: in trainers, saved and
// undone.
#include <functional>

#include "guarantees/guarantees.hpp"
#include "state/folder.hpp"

namespace guarantees::composed {

/// A schedule of a user's own: halves the rate after each epoch that it is told of.
struct Halves {
  using axis = ikebana::axis::schedule;
  double factor = 1;
};

}  // namespace guarantees::composed

template <>
struct ikebana::Mechanism<guarantees::composed::Halves> : ikebana::ScheduleHooks {
  guarantees::composed::Halves values;
  std::int64_t epochs = 0, steps = 0, prepared = 0, undone = 0;
  explicit Mechanism(guarantees::composed::Halves v) : values(v) {
    if (v.factor <= 0) throw BadValue("Halves: factor must be positive.");
  }
  double rate(double base, std::int64_t step) const {
    return base * values.factor * std::pow(0.5, epochs) + static_cast<double>(step) / 1024;
  }
  double momentum(double base, std::int64_t) const { return base / 2; }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate& rate) {
    ++prepared;
    if (rate(1.0) > 100) throw BadValue("Halves: too much.");
  }
  void end_step(const StepGradients&, Report&) noexcept { ++steps; }
  void abort() noexcept { ++undone; }
  void end_epoch(const Epoch&) { ++epochs; }
  void state(Archive& archive, const Masters&) {
    archive.number("epochs", epochs), archive.number("factor", values.factor);
  }
};

namespace guarantees::composed {

using Net = torch::nn::Sequential;
Net net() {
  return seeded([] { return Net(torch::nn::Linear(4, 3)); });
}
const std::vector<Rows> data = class_batches(4, 6, 4, 3);

template <class... Policies>
using Recipe = Trainer<Net, CrossEntropyLoss, SGD, Policies...>;
using Mixed = SequentialLR<LinearLR, Halves>;
Recipe<Mixed> mixed() {
  return Recipe<Mixed>{
      net(), SGD{.lr = 1},
      Mixed{.schedules = {{.start_factor = 0.5, .total_iters = 2}, {}}, .milestones = {3}}};
}
template <class T>
std::vector<double> rates(T& trainer, int steps) {
  std::vector<double> all;
  for (int s = 0; s < steps; ++s) all.push_back(trainer.step(data[0]).learning_rate);
  return all;
}
using Rates = std::vector<double>;

TEST_CASE("schedules: a schedule of one's own within another is asked all hooks of its axis") {
  auto trainer = mixed();
  CHECK(rates(trainer, 4) == Rates{0.5, 0.75, 1, 1});
  trainer.end_epoch({});
  CHECK(rates(trainer, 1) == Rates{0.5 + 1.0 / 1024});
  trainer.get<Mixed>().milestones = {1};
  CHECK(rates(trainer, 1) == Rates{0.5 + 4.0 / 1024});
  auto& mechanism = trainer.mechanism<Mixed>();
  CHECK(mechanism.momentum(0.5, 0) == 0.5);
  CHECK(mechanism.momentum(0.5, 1) == 0.25);
  std::get<Halves>(trainer.get<Mixed>().schedules).factor = 512;
  CHECK(test::contains(test::message_of<BadValue>([&] { trainer.step(data[0]); }), "too much"));
  std::get<Halves>(trainer.get<Mixed>().schedules).factor = 2;
  CHECK(rates(trainer, 1) == Rates{1 + 5.0 / 1024});
  mechanism.each([](const auto& m) {
    if constexpr (requires { m.undone; })
      CHECK((m.prepared == 8 && m.steps == 7 && m.undone == 1 && m.epochs == 1));
  });
  CHECK(test::contains(test::message_of<BadValue>([] {
                         Mechanism<Mixed>(
                             {.schedules = {{.total_iters = 1}, {-1}}, .milestones = {1}});
                       }),
                       "factor must be positive"));
}

TEST_CASE("schedules: what a schedule within another remembers is saved and restored") {
  auto first = mixed(), second = mixed();
  first.step(data[0]), first.end_epoch({});
  std::get<Halves>(first.get<Mixed>().schedules).factor = 2;
  second.restore(first.state());
  CHECK(std::get<Halves>(second.get<Mixed>().schedules).factor == 2);
  CHECK(rates(second, 4) == rates(first, 4));
  CHECK(first.state().count(
            "ikebana.SequentialLR<LinearLR, guarantees::composed::Halves>.schedules.1."
            "epochs") == 1);
}

TEST_CASE("schedules: SequentialLR and ChainedScheduler check what they hold") {
  auto error = [](auto policy) {
    return test::message_of<BadValue>([&] { Mechanism<decltype(policy)> mechanism(policy); });
  };
  using Two = SequentialLR<StepLR, StepLR>;
  const StepLR step{.step_size = 1};
  CHECK(test::contains(error(Two{.schedules = {step, step}}), "2 schedules and 0 milestones"));
  CHECK(
      test::contains(error(Two{.schedules = {step, step}, .milestones = {1, 2}}), "2 milestones"));
  CHECK(test::contains(error(Two{.schedules = {step, step}, .milestones = {0}}), "from 1 on"));
  CHECK(
      test::contains(error(Two{.schedules = {step, {}}, .milestones = {1}}), "StepLR: step_size"));
  using Three = SequentialLR<StepLR, StepLR, StepLR>;
  CHECK(test::contains(error(Three{.schedules = {step, step, step}, .milestones = {4, 4}}),
                       "increasing"));
  CHECK(error(SequentialLR<StepLR>{.schedules = {step}}) == "");
  const CosineAnnealingLR floor{.T_max = 4, .eta_min = 0.1};
  CHECK(test::contains(error(ChainedScheduler{std::tuple{step, floor}}),
                       "eta_min of CosineAnnealingLR is 0.1"));
  CHECK(test::contains(
      error(ChainedScheduler{std::tuple{SequentialLR{std::tuple{step, floor}, {3}}}}), "eta_min"));
  CHECK(test::contains(error(PerEpoch<LinearLR>{.schedule = {.total_iters = 2, .warmup_steps = 5}}),
                       "warmup_steps of the schedule within is 5"));
  CHECK(test::contains(error(PerEpoch<Two>{{{step, {.step_size = 1, .warmup_steps = 2}}, {3}}}),
                       "would count epochs"));
  CHECK(test::contains(error(PerEpoch{StepLR{}}), "StepLR: step_size is not given"));
  CHECK(test::contains(error(PerEpoch<StepLR>{.schedule = step, .steps_per_epoch = -1}),
                       "steps_per_epoch must not be negative"));
}

using ByEpoch = PerEpoch<StepLR>;
const ByEpoch halves{.schedule = {.step_size = 1, .gamma = 0.5}};
Recipe<ByEpoch> by_epoch(ByEpoch policy = halves) {
  return Recipe<ByEpoch>{net(), SGD{.lr = 1}, policy};
}

TEST_CASE("schedules: PerEpoch counts the epochs of fit, and a warm-up counts steps") {
  auto trainer = by_epoch({.schedule = halves.schedule, .warmup_steps = 6});
  std::vector<double> seen;
  FitOptions<Rows> options{.epochs = 3, .progress = false};
  options.on_step = [&](const Report& report) { seen.push_back(report.learning_rate); };
  trainer.fit(data, options);
  const double w = 1.0 / 6;
  CHECK(seen == Rates{w, 2 * w, 3 * w, 4 * w, 0.5 * 5 / 6, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25});
  CHECK(trainer.mechanism<ByEpoch>().epochs() == 3);
  CHECK(trainer.describe().find("PerEpoch<StepLR>  {schedule={StepLR{step_size=1, gamma=0.5, "
                                "warmup_steps=0}}, warmup_steps=6}") != std::string::npos);
}

TEST_CASE(
    "schedules: a fit with PerEpoch that stops within an epoch continues with the same bits") {
  FitOptions<Rows> options{.epochs = 3, .progress = false, .resume = true};
  const test::Folder plain;
  auto whole = by_epoch();
  options.save_to = plain.path;
  whole.fit(data, options);
  for (std::int64_t last : {1, 4, 6, 8, 11}) {
    CAPTURE(last);
    const test::Folder folder;
    options.save_to = folder.path;
    auto first = by_epoch(), second = by_epoch();
    options.stop = [&] { return first.steps() == last; };
    CHECK(first.fit(data, options).stopped);
    options.stop = {};
    second.fit(data, options);
    CHECK(second.mechanism<ByEpoch>().epochs() == 3);
    CHECK(test::same_state(second.state(), whole.state()));
  }
}

TEST_CASE("schedules: a loop of one's own that ends no epoch is seen where it can be") {
  auto trainer = by_epoch({.schedule = halves.schedule, .steps_per_epoch = 2});
  CHECK(rates(trainer, 2) == Rates{1, 1});
  const auto before = trainer.state();
  const std::string error = test::message_of<BadValue>([&] { trainer.step(data[0]); });
  CHECK(test::contains(error, "2 steps were made since the last end of an epoch"));
  CHECK(test::contains(error, "Call trainer.end_epoch(epoch)"));
  CHECK(test::same_state(trainer.state(), before));
  auto other = by_epoch({.schedule = halves.schedule, .steps_per_epoch = 2});
  other.restore(before);
  CHECK_THROWS_AS(other.step(data[0]), BadValue);
  trainer.end_epoch({});
  CHECK(rates(trainer, 2) == Rates{0.5, 0.5});
  trainer.end_epoch({});
  CHECK(test::contains(test::message_of<BadValue>([&] { trainer.end_epoch({}); }),
                       "no step was made since the last one ended"));
  CHECK(rates(trainer, 1) == Rates{0.25});
}

TEST_CASE("schedules: a chain multiplies a schedule of steps and one of epochs") {
  using Chain = ChainedScheduler<LinearLR, ByEpoch>;
  Mechanism<Chain> chain({.schedules = {{.start_factor = 0.5, .total_iters = 2}, halves}});
  Report report;
  auto step = [&] { chain.end_step({}, report); };
  CHECK(chain.rate(8, 1) == 6);
  step(), chain.end_epoch({});
  CHECK(chain.rate(8, 1) == 3);
  CHECK(chain.rate(8, 2) == 4);
  CHECK_THROWS_AS(chain.end_epoch({}), BadValue);
}

using OneCycle = Recipe<OneCycleLR>;
SGD two_groups() { return {.lr = 1, .groups = {{.match = named("*.bias"), .lr = 0.25}}}; }

TEST_CASE("schedules: a step beyond OneCycleLR's last one is undone, and names the cure") {
  const OneCycleLR cycle{.max_lr = 0.5, .total_steps = 3, .cycle_momentum = false};
  OneCycle trainer{net(), SGD{.lr = 7}, cycle};
  CHECK(rates(trainer, 3).back() == doctest::Approx(0.5 / 25 / 1e4));
  const auto before = trainer.state();
  CHECK(test::contains(test::message_of<BadValue>([&] { trainer.step(data[0]); }),
                       "step 3 of the cycle, counted from 0, is beyond its 3 steps. Write the"));
  CHECK(trainer.steps() == 3);
  CHECK(test::same_state(trainer.state(), before));
  trainer.get<OneCycleLR>().total_steps = 6;
  CHECK(rates(trainer, 1).back() > 0.1);
}

TEST_CASE(
    "schedules: max_lr of OneCycleLR is that of all parameters, or left out that of each group") {
  OneCycleLR cycle{.total_steps = 8, .pct_start = 0.25, .cycle_momentum = false, .div_factor = 4};
  OneCycle trainer{net(), two_groups(), cycle};
  CHECK(rates(trainer, 2) == Rates{0.25, 1});
  cycle.max_lr = 0.5;
  OneCycle other{net(), two_groups(), cycle};
  const auto before = other.state();
  const std::string error = test::message_of<BadValue>([&] { other.step(data[0]); });
  CHECK(test::contains(error, "OneCycleLR: it gives all parameters one rate"));
  CHECK(test::contains(error, "Leave max_lr out"));
  CHECK(test::same_state(other.state(), before));
  other.get<SGD>().lr = 0.25;
  CHECK(rates(other, 2) == Rates{0.125, 0.5});
  Mechanism<CyclicLR> cyclic({.base_lr = 1, .max_lr = 2});
  cyclic.attach(at::kCPU, UnitTable());
  cyclic.rate(1, 4), cyclic.rate(2, 5);
  CHECK(test::contains(test::message_of<BadValue>([&] { cyclic.rate(1, 5); }), "write a LambdaLR"));
}

TEST_CASE(
    "schedules: a schedule that cycles the momentum of an optimizer without one is an error") {
  const OneCycleLR cycle{.total_steps = 3};
  const std::string error = test::message_of<BadValue>(
      [&] { Trainer{net(), CrossEntropyLoss{}, Adagrad{.lr = 1}, cycle}; });
  CHECK(test::contains(error, "OneCycleLR: cycle_momentum is true, and Adagrad has neither"));
  CHECK(test::contains(error, "Write .cycle_momentum = false"));
}

}  // namespace guarantees::composed
