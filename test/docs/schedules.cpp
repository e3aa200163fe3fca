// Compiles and runs the code that the pages on schedules and optimizers show.
#include "classes.hpp"

namespace test::policies {

TEST_CASE("docs/schedule.md: a schedule is a policy with values") {
  auto model = net();
  auto loader = classes();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 3e-4},
                  WarmupStableDecayLR{.warmup_steps = 10, .stable_steps = 70, .decay_steps = 20}};
  CHECK(trainer.step(loader[0]).learning_rate == doctest::Approx(3e-5));
}

TEST_CASE("docs/schedule.md: a function of the step") {
  auto model = net();
  auto loader = classes();
  LambdaLR inverse_root{
      .lr_lambda = [](std::int64_t step) { return 1 / std::sqrt(1.0 + static_cast<double>(step)); },
      .warmup_steps = 2};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, inverse_root};
  for (const auto& batch : loader) trainer.step(batch);
  CHECK(trainer.step(loader[0]).learning_rate == doctest::Approx(1e-3 / std::sqrt(3.0)));
}

TEST_CASE("docs/optimizer.md: a group with a schedule of its own") {
  auto model = net();
  auto loader = classes();
  Group head{.match = "2.*",
             .lr = 1e-2,
             .betas = {{0.8, 0.95}},
             .schedule = CosineAnnealingLR{.T_max = 100, .warmup_steps = 10}};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 3e-3, .groups = {head, no_decay()}},
                  LinearLR{.start_factor = 1, .end_factor = 0, .total_iters = 100}};
  auto rates = trainer.step(loader[0]).learning_rates;  // {1e-3, 3e-3, 3e-3}
  CHECK(rates[0] == doctest::Approx(1e-3));
  CHECK(rates[1] == doctest::Approx(3e-3));
  CHECK(rates[2] == rates[1]);
}

TEST_CASE("docs/schedule.md: a plateau, updated by fit and by hand") {
  auto model = net();
  auto loader = classes(), held_out = classes(2);
  ReduceLROnPlateau plateau{
      .mode = ReduceLROnPlateau::max, .factor = 0.5, .patience = 3, .metric = "accuracy"};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, plateau};
  trainer.fit(loader, {.epochs = 2, .validate = held_out, .metrics = {Accuracy{}}});

  double accuracy = trainer.evaluate(held_out, Accuracy{})["accuracy"];
  trainer.mechanism<ReduceLROnPlateau>().step(accuracy);
  CHECK(trainer.mechanism<ReduceLROnPlateau>().reductions() == 0);
}

TEST_CASE("docs/schedule.md: one cycle, which sets the rate and the momentum") {
  auto model = net();
  auto loader = classes();
  OneCycleLR cycle{.max_lr = 1e-2, .epochs = 2, .steps_per_epoch = std::ssize(loader)};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, cycle};
  trainer.fit(loader, {.epochs = 2});
  CHECK_THROWS_AS(trainer.step(loader[0]), BadValue);
}

TEST_CASE("docs/schedule.md: one schedule after another, and several at once") {
  auto model = net();
  auto loader = classes();
  SequentialLR<LinearLR, CosineAnnealingLR> rise_and_fall{
      .schedules = {{.start_factor = 0.1, .total_iters = 10}, {.T_max = 90, .eta_min = 1e-5}},
      .milestones = {10}};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, rise_and_fall};
  CHECK(trainer.step(loader[0]).learning_rate == doctest::Approx(1e-4));

  ChainedScheduler<LinearLR, ExponentialLR> rise_and_decay{
      .schedules = {{.start_factor = 0.1, .total_iters = 10}, {.gamma = 0.99}}};
  CHECK(Mechanism<decltype(rise_and_decay)>(rise_and_decay).rate(1, 10) ==
        doctest::Approx(std::pow(0.99, 10)));
}

TEST_CASE("docs/schedule.md: epochs instead of steps, by fit and by hand") {
  auto model = net();
  auto loader = classes();
  PerEpoch<StepLR> by_epoch{.schedule = {.step_size = 30, .gamma = 0.1}, .warmup_steps = 500};
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1, .momentum = 0.9}, by_epoch};
  trainer.fit(loader, {.epochs = 2});

  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (const auto& batch : loader) trainer.step(batch);
    trainer.end_epoch({.epoch = epoch});
  }
  CHECK(trainer.mechanism<PerEpoch<StepLR>>().epochs() == 4);
}

}  // namespace test::policies
