// Schedules beyond a comparison with closed forms: what a plateau remembers, which metric it gets,
// and that a restored state continues it.
#include "guarantees/guarantees.hpp"

namespace guarantees::schedules {

double rate_at(const auto& schedule, std::int64_t step, double base = 8) {
  return Mechanism<std::decay_t<decltype(schedule)>>(schedule).rate(base, step);
}
void table(const auto& schedule, const std::vector<double>& rates) {
  for (std::size_t s = 0; s < rates.size(); ++s) {
    CAPTURE(s);
    CHECK(rate_at(schedule, static_cast<std::int64_t>(s)) ==
          doctest::Approx(rates[s]).epsilon(1e-14));
  }
}

TEST_CASE("schedules: StepLR, WarmupStableDecayLR and LambdaLR equal their closed forms") {
  table(StepLR{.step_size = 2, .gamma = 0.5}, {8, 8, 4, 4, 2, 2, 1});
  table(StepLR{.step_size = 1, .gamma = 0.25, .warmup_steps = 2}, {4, 8, 8, 2, 0.5});
  table(WarmupStableDecayLR{.warmup_steps = 2,
                            .stable_steps = 3,
                            .decay_steps = 4,
                            .decay = DecayForm::Linear,
                            .eta_min = 4},
        {4, 8, 8, 8, 8, 8, 7, 6, 5, 4, 4});
  table(WarmupStableDecayLR{.decay_steps = 16}, {8, 6, 8 * (1 - std::sqrt(2.0) / 4)});
  CHECK(rate_at(WarmupStableDecayLR{.decay_steps = 16}, 4) == 4);
  table(WarmupStableDecayLR{.stable_steps = 1, .decay_steps = 2, .decay = DecayForm::Cosine},
        {8, 8, 4, 0, 0});
  LambdaLR halves{.lr_lambda = [](std::int64_t s) { return std::pow(0.5, s); }, .warmup_steps = 2};
  table(halves, {4, 8, 8, 4, 2});
}

TEST_CASE("schedules: WarmupStableDecayLR is continuous where its parts meet, in every form") {
  for (DecayForm form : {DecayForm::Linear, DecayForm::OneMinusSqrt, DecayForm::Cosine}) {
    WarmupStableDecayLR wsd{
        .warmup_steps = 5, .stable_steps = 7, .decay_steps = 9, .decay = form, .eta_min = 1};
    CHECK(rate_at(wsd, 4) == 8);
    CHECK(rate_at(wsd, 12) == 8);
    CHECK(rate_at(wsd, 21) == 1);
    for (std::int64_t s = 12; s < 21; ++s) CHECK(rate_at(wsd, s + 1) < rate_at(wsd, s));
  }
}

using Plateau = Mechanism<ReduceLROnPlateau>;

/// Returns the rates after each of these metrics.
std::vector<double> rates(Plateau plateau, const std::vector<double>& metrics, double base = 8) {
  std::vector<double> all;
  for (double metric : metrics) plateau.step(metric), all.push_back(plateau.rate(base, 0));
  return all;
}

TEST_CASE("schedules: ReduceLROnPlateau follows patience, threshold, cooldown and both modes") {
  using P = ReduceLROnPlateau;
  using Rates = std::vector<double>;
  P two{.factor = 0.5, .patience = 2};
  CHECK(rates(Plateau(two), {3, 3, 3, 3, 3, 3, 3}) == Rates{8, 8, 8, 4, 4, 4, 2});
  P none{.factor = 0.5, .patience = 0, .cooldown = 2};
  CHECK(rates(Plateau(none), {3, 3, 3, 3, 3, 3}) == Rates{8, 4, 4, 4, 2, 2});
  P most{.mode = P::max, .factor = 0.5, .patience = 0, .threshold = 1, .threshold_mode = P::abs};
  CHECK(rates(Plateau(most), {1, 2, 2.5, 3.5}) == Rates{8, 4, 4, 2});
  P relative{.factor = 0.5, .patience = 0, .threshold = 0.1};
  CHECK(rates(Plateau(relative), {10, 9.5, 8.9, 8.1, 8}) == Rates{8, 4, 4, 2, 2});
  CHECK(rates(Plateau(two), {3, NAN, NAN, NAN}) == Rates{8, 8, 8, 4});
  P floor{.factor = 0.5, .patience = 0, .min_lr = 3};
  CHECK(rates(Plateau(floor), {1, 1, 1, 1}) == Rates{8, 4, 3, 3});
  P still{.factor = 0.5, .patience = 0, .eps = 2};
  CHECK(rates(Plateau(still), {1, 1, 1, 1}) == Rates{8, 4, 4, 4});
}

TEST_CASE("schedules: ReduceLROnPlateau judges a metric below 0 as one above it") {
  using P = ReduceLROnPlateau;
  auto reductions = [](P plateau, const auto& metric) {
    Plateau mechanism(plateau);
    for (int epoch = 0; epoch < 12; ++epoch) mechanism.step(metric(epoch));
    return mechanism.reductions();
  };
  for (const double size : {1e-3, 1.0, 1e4}) {
    auto stays = [&](int) { return -size; };
    auto worse = [&](int epoch) { return -size * (1 - 5e-5 * epoch); };
    auto better = [&](int epoch) { return -size * (1 + 2e-4 * epoch); };
    auto hardly_better = [&](int epoch) { return -size * (1 + 5e-6 * epoch); };
    const P least{.patience = 1}, most{.mode = P::max, .patience = 1};
    CHECK(reductions(least, [&](int) { return size; }) == 5);
    CHECK(reductions(least, stays) == 5);
    CHECK(reductions(least, worse) == 5);
    CHECK(reductions(least, hardly_better) == 5);
    CHECK(reductions(least, better) == 0);
    CHECK(reductions(most, stays) == 5);
    CHECK(reductions(most, better) == 5);  // than the smaller: worse than the larger
    CHECK(reductions(most, [&](int epoch) { return -size * (1 - 2e-3 * epoch); }) == 0);
  }
  auto falls = [](int epoch) { return 8.0 / (1 << epoch); };  // to less than half: threshold 1/2
  CHECK(reductions(P{.patience = 0, .threshold = 0.4}, falls) == 0);
  CHECK(reductions(P{.patience = 0, .threshold = 1}, falls) == 11);  // the first is an improvement
  auto crosses = [](int epoch) { return 3.0 - epoch; };
  CHECK(reductions(P{.patience = 0, .threshold = 0.1}, crosses) == 0);
}

/// Returns the reductions of a loop over epochs by hand, whose losses fall.
template <class MakeEpoch>
std::int64_t reductions_by_hand(ReduceLROnPlateau plateau, const MakeEpoch& make) {
  Trainer trainer{seeded([] { return torch::nn::Sequential(torch::nn::Linear(4, 3)); }),
                  CrossEntropyLoss{}, SGD{}, std::move(plateau)};
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) trainer.end_epoch(make(epoch));
  return trainer.template mechanism<ReduceLROnPlateau>().reductions();
}

TEST_CASE("schedules: an epoch without a loss is an error of a plateau, and no loss of 0") {
  const ReduceLROnPlateau quick{.patience = 0};
  auto says = [&](const auto& make, const char* words) {
    return test::contains(test::message_of<BadValue>([&] { reductions_by_hand(quick, make); }),
                          words);
  };
  CHECK(says([](std::int64_t e) { return Epoch{.epoch = e}; },
             "the epoch that end_epoch was given has no loss. Write end_epoch({.epoch = epoch, "));
  CHECK(says([](std::int64_t e) { return Epoch{.epoch = e, .steps = 4}; }, "has no loss"));
  CHECK(says([](std::int64_t e) { return Epoch{.epoch = e, .validation = Evaluation{}}; },
             "the validation of the epoch that end_epoch was given has no loss"));
  auto loss = [](std::int64_t e) { return 1 / (1 + static_cast<double>(e)); };
  CHECK(reductions_by_hand(quick, [&](auto e) { return Epoch{.epoch = e, .loss = loss(e)}; }) == 0);
  CHECK(reductions_by_hand(quick, [&](auto e) {
          return Epoch{.epoch = e, .validation = Evaluation{.loss = loss(e)}};
        }) == 0);
  CHECK(reductions_by_hand(quick, [](auto e) { return Epoch{.epoch = e, .loss = NAN}; }) == 8);
  CHECK(reductions_by_hand({.patience = 0, .metric = "r"}, [&](auto e) {
          return Epoch{.epoch = e, .validation = Evaluation{.metrics = {{"r", loss(e)}}}};
        }) == 0);
  CHECK(std::isnan(Epoch().loss));
  CHECK(std::isnan(Epoch().seconds));
  CHECK(std::isnan(Evaluation().loss));
  CHECK(std::isnan(Report().learning_rate));
  CHECK(std::isnan(Report().seconds));
}

TEST_CASE("schedules: groups are reduced by one factor and reach min_lr at different times") {
  Plateau plateau({.factor = 0.5, .patience = 0, .min_lr = 3});
  for (int i = 0; i < 3; ++i) plateau.step(1);
  CHECK(plateau.reductions() == 2);
  CHECK(plateau.rate(32, 0) == 8);
  CHECK(plateau.rate(8, 0) == 3);
}

TEST_CASE("schedules: a warm-up rises to the rate that the plateau has reduced") {
  Plateau plateau({.factor = 0.5, .patience = 0, .warmup_steps = 4});
  CHECK(plateau.rate(8, 1) == 4);
  plateau.step(1), plateau.step(1);
  CHECK(plateau.rate(8, 1) == 2);
  CHECK(plateau.rate(8, 4) == 4);
}

torch::nn::Sequential net() {
  return seeded([] { return torch::nn::Sequential(torch::nn::Linear(4, 3)); });
}
/// Returns the rates of the epochs' last steps under `fit`.
std::vector<double> fitted(ReduceLROnPlateau plateau, bool validates) {
  auto data = class_batches(2, 6, 4, 3);
  Trainer trainer{net(), CrossEntropyLoss{}, SGD{.lr = 0}, plateau};
  trainer.get<SGD>().lr = 8;
  FitOptions<Rows> options{.epochs = 1};
  if (validates) options.validate = data, options.metrics = {Accuracy{}};
  std::vector<double> all;
  for (int e = 0; e < 3; ++e) {
    trainer.get<SGD>().lr = 0;  // the metric stays constant
    trainer.fit(data, options);
    all.push_back(trainer.mechanism<ReduceLROnPlateau>().rate(8, 0));
  }
  return all;
}

TEST_CASE("schedules: fit passes a plateau the loss of validation, of training, or a metric") {
  ReduceLROnPlateau quick{.factor = 0.5, .patience = 0};
  const std::vector<double> falls{8, 4, 2};
  CHECK(fitted(quick, true) == falls);
  CHECK(fitted(quick, false) == falls);
  quick.metric = "accuracy", quick.mode = quick.max;
  CHECK(fitted(quick, true) == falls);
  CHECK(test::contains(test::message_of<BadValue>([&] { fitted(quick, false); }),
                       "metric is `accuracy`, which validation computes"));
}

TEST_CASE("schedules: a plateau continues from a saved state") {
  auto batch = class_batches(1, 6, 4, 3)[0];
  auto make = [] {
    return Trainer{net(), CrossEntropyLoss{}, SGD{.lr = 1},
                   ReduceLROnPlateau{.factor = 0.5, .patience = 1, .cooldown = 1}};
  };
  for (std::size_t cut = 0; cut < 8; ++cut) {
    CAPTURE(cut);
    auto whole = make(), first = make(), second = make();
    std::vector<double> expected, got;
    for (std::size_t s = 0; s < 8; ++s) {
      if (s == cut) second.restore(first.state());
      auto& other = s < cut ? first : second;
      expected.push_back(whole.step(batch).learning_rate);
      got.push_back(other.step(batch).learning_rate);
      whole.mechanism<ReduceLROnPlateau>().step(3), other.mechanism<ReduceLROnPlateau>().step(3);
    }
    CHECK(got == expected);
    CHECK(expected.back() == 0.25);
  }
}

TEST_CASE("schedules: invalid values are errors when the trainer is made") {
  auto says = [](auto value, const char* words) {
    return test::contains(
        test::message_of<BadValue>([&] { Trainer{net(), CrossEntropyLoss{}, value}; }), words);
  };
  CHECK(says(StepLR{}, "step_size is not given"));
  CHECK(says(WarmupStableDecayLR{.stable_steps = 3}, "decay_steps is not given"));
  CHECK(says(WarmupStableDecayLR{.decay_steps = 3, .eta_min = -1}, "must not be negative"));
  CHECK(says(LambdaLR{}, "lr_lambda is not given"));
  CHECK(says(ReduceLROnPlateau{.factor = 1}, "less than 1"));
  CHECK(says(ReduceLROnPlateau{.patience = -1}, "must not be negative"));
  CHECK(says(StepLR{.step_size = 1, .warmup_steps = -1}, "warmup_steps is -1"));
}

}  // namespace guarantees::schedules
