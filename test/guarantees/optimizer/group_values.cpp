// Tests parameter groups with values of their own.
#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "group_values.hpp"

namespace guarantees::group_values {

template <class Policy>
void check_values(at::ScalarType type, bool on_device) {
  Alone<Policy> grouped(with_group<Policy>(), type), own(with_others<Policy>(), type),
      plain(lively<Policy>(), type);
  for (auto* alone : {&grouped, &own, &plain}) {
    if (on_device) alone->as_elsewhere();
    alone->run(0, 6, in_turn);
  }
  check_apart(grouped.state(), own.state(), plain.state());
}

TEST_CASE("group values: a group updates as an optimizer with its values, to the bit") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (bool on_device : {false, true}) check_values<Policy>(at::kFloat, on_device);
  });
  Halves::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    check_values<Policy>(at::kBFloat16, false);
  });
}

TEST_CASE("group values: some parameters with momentum and others without") {
  SGD sgd{.lr = 0.1, .groups = {{.match = named(chosen), .momentum = 0.9}}};
  Alone<SGD> grouped(sgd), own(SGD{.lr = 0.1, .momentum = 0.9}), plain(SGD{.lr = 0.1});
  for (auto* alone : {&grouped, &own, &plain}) alone->run(0, 4);
  for (const char* name : {"conv_weight", "linear_bias", "lonely"})
    CHECK(test::same_bits(grouped.state()[name], plain.state()[name]));
  CHECK(test::same_bits(grouped.state()[chosen], own.state()[chosen]));
  sgd.dampening = 0.5;
  Alone<SGD> dampened(sgd);
  CHECK(test::contains(test::message_of<BadValue>([&] { dampened.run(0, 1); }),
                       "some parameters have a momentum of 0"));
  Alone<SGD> nesterov(SGD{
      .momentum = 0.9, .nesterov = true, .groups = {{.match = named(chosen), .momentum = 0.0}}});
  CHECK(test::contains(test::message_of<BadValue>([&] { nesterov.run(0, 1); }),
                       "makes the momentum 0"));
}

TEST_CASE("group values: they are saved, and loading sets them") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Alone<Policy> whole(with_group<Policy>()), other(with_group<Policy>());
    whole.run(0, 3);
    Group& group = other.values().groups[0];
    group.lr = 7;
    if (group.betas) group.betas = {0.1, 0.2};
    if (group.eps) group.eps = 0.5;
    if (group.momentum) group.momentum = 0.1;
    other.restore(whole.state());
    whole.run(3, 6), other.run(3, 6);
    CHECK(same_state(other.state(), whole.state()));
    auto damaged = whole.state();
    damaged["ikebana.optimizer.groups.0.lr"].fill_(-1);
    CHECK_THROWS_AS(other.restore(damaged), BadState);
  });
}

/// Returns the error of an optimizer with a group that has one value.
template <class Policy>
std::string refused(const Group& group) {
  Policy policy = lively<Policy>();
  policy.groups = {group};
  return test::message_of<BadValue>([&] { Mechanism<Policy> made(policy); });
}

TEST_CASE("group values: a value that the optimizer has no field for is refused") {
  using test::contains;
  CHECK(contains(refused<SGD>({.match = named(chosen), .betas = {{0.9, 0.99}}}),
                 "`betas`, and SGD has no such field"));
  CHECK(contains(refused<SGD>({.match = named(chosen), .eps = 1e-3}), "`eps`, and SGD"));
  CHECK(
      contains(refused<AdamW>({.match = named(chosen), .momentum = 0.9}), "`momentum`, and AdamW"));
  CHECK(contains(refused<Lion>({.match = named(chosen), .eps = 1e-3}), "`eps`, and Lion"));
  CHECK(
      contains(refused<Adafactor>({.match = named(chosen), .eps = 1e-3}), "`eps`, and Adafactor"));
  CHECK(contains(refused<Muon>({.match = named(chosen), .betas = {{0.9, 0.99}}}),
                 "`betas`, and Muon"));
  CHECK(contains(refused<SparseAdam>({.match = named(chosen), .weight_decay = 0.1}),
                 "`weight_decay`, and SparseAdam"));
  CHECK(contains(refused<AdamW>({.match = named(chosen), .betas = {{0.9, 1.0}}}),
                 "one of a group's betas is 1"));
  CHECK(contains(refused<AdamW>({.match = named(chosen), .eps = NAN}), "a group's eps is nan"));
  CHECK(contains(refused<SparseAdam>({.match = named(chosen), .eps = 0.0}), "a group's eps is 0"));
  CHECK(contains(refused<SGD>({.match = named(chosen), .momentum = -0.1}),
                 "a group's momentum is -0.1"));
  CHECK(contains(
      test::message_of<BadValue>([] { (void)Group{.match = {}, .schedule = CosineAnnealingLR{}}; }),
      "T_max is not given"));
}

template <class Optimizer>
std::vector<double> rates(Optimizer optimizer, std::int64_t steps = 2) {
  Trainer trainer{Shapes(at::kFloat), Pulls{}, std::move(optimizer),
                  LinearLR{.start_factor = 1, .end_factor = 0, .total_iters = 4}};
  Report report;
  for (std::int64_t s = 0; s < steps; ++s) report = trainer.step(at::ones({1}));
  return {report.learning_rates.begin(), report.learning_rates.end()};
}

TEST_CASE("group values: a report has the learning rate of every group") {
  using Rates = std::vector<double>;
  const std::vector<Group> groups{{.match = named("conv_*"), .lr = 0.5},
                                  {.match = named(chosen), .schedule = ConstantLR{}}};
  CHECK(rates(AdamW{.lr = 0.1}) == Rates{0.1 * 0.75});
  CHECK(rates(AdamW{.lr = 0.1, .groups = groups}) == Rates{0.5 * 0.75, 0.1, 0.1 * 0.75});
  CHECK(rates(InBackward<AdamW>{{.lr = 0.1, .groups = groups}}) ==
        Rates{0.5 * 0.75, 0.1, 0.1 * 0.75});
  CHECK(rates(Muon{
            .lr = 0.2, .otherwise = {.lr = 0.1, .groups = {groups[0]}}, .groups = {groups[1]}}) ==
        Rates{0.2, 0.2 * 0.75, 0.5 * 0.75, 0.1 * 0.75});
  CHECK(rates(Combined<Muon, Lion>{.first = {.lr = 0.2}, .rest = {.lr = 0.4}}) ==
        Rates{0.2 * 0.75, 0.4 * 0.75});
  CHECK(rates(LibTorchOptimizer<torch::optim::Adam>{torch::optim::AdamOptions(0.1), groups}) ==
        Rates{0.5 * 0.75, 0.1, 0.1 * 0.75});
}

TEST_CASE("group values: those of InBackward are those of its optimizer, to the bit") {
  AdamW adamw = with_group<AdamW>();
  adamw.groups[0].schedule = StepLR{.step_size = 1, .gamma = 0.5};
  Trainer inside{Shapes(at::kFloat), Pulls{}, InBackward<AdamW>{adamw}};
  Trainer outside{Shapes(at::kFloat), Pulls{}, adamw};
  for (int s = 0; s < 4; ++s) inside.step(at::ones({1})), outside.step(at::ones({1}));
  CHECK(test::same_bits(parameters_of(inside.model()), parameters_of(outside.model())));
  const StateDict state = inside.state();
  CHECK(state.count("ikebana.InBackward<AdamW>.groups.0.betas.1") == 1);
  CHECK_NOTHROW(inside.restore(state));
}

TEST_CASE("group values: those of an optimizer of LibTorch are set in its options") {
  using torch::optim::Adam;
  using torch::optim::AdamOptions;
  using torch::optim::SGDOptions;
  LibTorchOptimizer<Adam> adam{AdamOptions(0.05), {{.match = named(chosen)}}};
  set_others<ikebana::AdamW>(adam.groups[0]);
  Alone<LibTorchOptimizer<Adam>> grouped(adam), plain({AdamOptions(0.05)}),
      own({AdamOptions(0.02).weight_decay(0.3).betas({0.7, 0.95}).eps(1e-3)});
  for (auto* alone : {&grouped, &own, &plain}) alone->run(0, 4);
  CHECK(test::same_bits(grouped.state()[chosen], own.state()[chosen]));
  CHECK(test::same_bits(grouped.state()["lonely"], plain.state()["lonely"]));
  adam.groups[0].momentum = 0.5;
  CHECK_THROWS_AS(Mechanism<LibTorchOptimizer<Adam>>{adam}, BadValue);
  const Ramp ramp(MomentumRamp{});
  Alone<LibTorchOptimizer<torch::optim::SGD>> theirs({SGDOptions(0.1)});
  Alone<SGD> ours(SGD{.lr = 0.1});
  for (int s = 0; s < 5; ++s) {
    theirs.step_at(StepRate(ramp, s), theirs.gradients(s));
    ours.step_at(StepRate(ramp, s), ours.gradients(s));
  }
  CHECK(test::worst_relative(theirs.masters.values, ours.masters.values) < 1e-6);
}

}  // namespace guarantees::group_values
