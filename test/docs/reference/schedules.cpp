// Examples of the reference: schedules.
#include "policies.hpp"

namespace test::reference::schedules {

/// Returns the rate of a step if the optimizer's lr is 1.
template <class Schedule>
double rate(const Schedule& schedule, std::int64_t step) {
  return Mechanism<Schedule>(schedule).rate(1, step);
}

TEST_CASE_FIXTURE(Small, "reference: schedules in a recipe") {
  {
    // example: CosineAnnealingLR
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 3e-4},
                    CosineAnnealingLR{.T_max = 900, .eta_min = 3e-5, .warmup_steps = 100}};
    // end
    CHECK(rate(trainer.get<CosineAnnealingLR>(), 49) == 0.5);
    CHECK(rate(trainer.get<CosineAnnealingLR>(), 1000) == doctest::Approx(3e-5));
  }
  {
    // example: PerEpoch
    Trainer trainer{
        model, CrossEntropyLoss{}, SGD{.lr = 0.1, .momentum = 0.9},
        PerEpoch<StepLR>{.schedule = {.step_size = 30, .gamma = 0.1}, .warmup_steps = 500}};
    for (const Rows& rows : loader) trainer.step(rows);
    trainer.end_epoch({.epoch = 0});  // `fit` does so
    // end
    CHECK(trainer.mechanism<PerEpoch<StepLR>>().epochs() == 1);
  }
  {
    // example: ReduceLROnPlateau
    Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1, .momentum = 0.9},
                    ReduceLROnPlateau{.factor = 0.5, .patience = 0}};
    trainer.mechanism<ReduceLROnPlateau>().step(0.7);  // `fit` does so with the loss of an epoch
    trainer.mechanism<ReduceLROnPlateau>().step(0.9);  // no improvement: half the rate from now on
    // end
    CHECK(trainer.mechanism<ReduceLROnPlateau>().reductions() == 1);
  }
}

TEST_CASE("reference: the values of schedules") {
  {
    // example: ConstantLR
    ConstantLR schedule{.warmup_steps = 100};  // a linear rise, then the optimizer's lr
    // end
    CHECK((rate(schedule, 49) == 0.5 && rate(schedule, 1000) == 1));
  }
  {
    // example: LinearLR
    LinearLR schedule{.start_factor = 1, .end_factor = 0, .total_iters = 1000};
    // end
    CHECK((rate(schedule, 500) == 0.5 && rate(schedule, 1000) == 0));
  }
  {
    // example: CosineAnnealingWarmRestarts
    CosineAnnealingWarmRestarts schedule{.T_0 = 100, .T_mult = 2};  // restarts at 100, 300, 700
    // end
    CHECK((rate(schedule, 299) < 1e-3 && rate(schedule, 300) == 1));
  }
  {
    // example: StepLR
    StepLR schedule{.step_size = 30, .gamma = 0.5};  // half the rate after every 30 steps
    // end
    CHECK((rate(schedule, 29) == 1 && rate(schedule, 60) == 0.25));
  }
}

TEST_CASE("reference: schedules of powers") {
  {
    // example: MultiStepLR
    MultiStepLR schedule{.milestones = {60, 80}, .gamma = 0.1};
    // end
    CHECK((rate(schedule, 59) == 1 && rate(schedule, 80) == doctest::Approx(0.01)));
  }
  {
    // example: ExponentialLR
    ExponentialLR schedule{.gamma = 0.99};
    // end
    CHECK(rate(schedule, 2) == doctest::Approx(0.9801));
  }
  {
    // example: PolynomialLR
    PolynomialLR schedule{.total_iters = 1000, .power = 2};
    // end
    CHECK((rate(schedule, 500) == 0.25 && rate(schedule, 1000) == 0));
  }
}

TEST_CASE("reference: schedules of cycles and phases") {
  {
    // example: OneCycleLR
    OneCycleLR schedule{.max_lr = 1e-2, .epochs = 10, .steps_per_epoch = 100};
    // end
    CHECK(rate(schedule, 299) == doctest::Approx(1e-2));
  }
  {
    // example: CyclicLR
    CyclicLR schedule{
        .base_lr = 1e-4, .max_lr = 1e-2, .step_size_up = 500, .mode = CyclicLR::triangular2};
    // end
    CHECK((rate(schedule, 0) == 1e-4 && rate(schedule, 500) == 1e-2));
  }
  {
    // example: WarmupStableDecayLR, DecayForm
    WarmupStableDecayLR schedule{
        .warmup_steps = 100, .stable_steps = 700, .decay_steps = 200, .decay = DecayForm::Linear};
    // end
    CHECK((rate(schedule, 500) == 1 && rate(schedule, 900) == 0.5));
  }
}

TEST_CASE("reference: schedules that are made of others") {
  {
    // example: LambdaLR
    LambdaLR schedule{.lr_lambda = [](std::int64_t step) { return step < 100 ? 1.0 : 0.1; }};
    // end
    CHECK((rate(schedule, 99) == 1 && rate(schedule, 100) == 0.1));
  }
  {
    // example: SequentialLR
    SequentialLR<LinearLR, CosineAnnealingLR> schedule{
        .schedules = {{.start_factor = 0.1, .total_iters = 10}, {.T_max = 90}},
        .milestones = {10}};  // the second one begins at step 10
    // end
    CHECK((rate(schedule, 0) == 0.1 && rate(schedule, 10) == 1));
  }
  {
    // example: ChainedScheduler
    ChainedScheduler<LinearLR, ExponentialLR> schedule{
        .schedules = {{.start_factor = 0.5, .total_iters = 10}, {.gamma = 0.9}}};  // both factors
    // end
    CHECK(rate(schedule, 0) == 0.5);
    CHECK(rate(schedule, 10) == doctest::Approx(std::pow(0.9, 10)));
  }
}

}  // namespace test::reference::schedules
