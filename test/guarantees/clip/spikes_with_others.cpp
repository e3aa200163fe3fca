// SkipSpikes beside FP16 and within fit, and what is an error.
#include "spiky.hpp"

namespace guarantees::spikes {

using test::contains;
using test::message_of;

TEST_CASE("spikes: an overflow of FP16 is none, and a spike leaves the loss scale alone") {
  auto model = seeded([] { return torch::nn::Sequential(torch::nn::Linear(4, 3)); });
  const Precision<FP16> half{.init_scale = 1 << 24, .growth_interval = 1000};
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, half,
                  SkipSpikes{.window = 4, .zscore = 4}};
  int overflows = 0, spikes = 0;
  for (Rows batch : class_batches(40, 7, 4, 3)) {
    const double scale = trainer.mechanism<Precision<FP16>>().loss_scale();
    const auto before = trainer.mechanism<SkipSpikes>().skipped();
    if (trainer.steps() % 10 == 9) batch.input = batch.input * 50;
    const bool skipped = trainer.step(batch).skipped();
    const bool is_spike = trainer.mechanism<SkipSpikes>().skipped() > before;
    const bool overflowed = trainer.mechanism<Precision<FP16>>().loss_scale() < scale;
    CHECK(skipped == (is_spike || overflowed));
    CHECK_FALSE((is_spike && overflowed));
    overflows += overflowed, spikes += is_spike;
  }
  CHECK(overflows > 0);
  CHECK(spikes > 0);
}

TEST_CASE("spikes: fit says where in the data the batch of a skipped step was") {
  const auto loader = data(22);
  for (const std::int64_t batches_per_step : {1, 4}) {
    CAPTURE(batches_per_step);
    Trainer trainer{Spiky(), SGD{.lr = 0.1}, SkipSpikes{.window = 4, .zscore = 2}};
    std::vector<Report> skipped;
    auto on_step = [&](const Report& report) {
      const std::int64_t steps = (22 + batches_per_step - 1) / batches_per_step;
      const BatchPosition here{report.step / steps, report.step % steps * batches_per_step};
      CHECK(report.position == here);
      if (report.skipped()) skipped.push_back(report);
    };
    trainer.fit(loader, {.epochs = 3, .batches_per_step = batches_per_step, .on_step = on_step});
    const auto skips = trainer.template mechanism<SkipSpikes>().skips();
    CHECK(skips.size() == skipped.size());
    CHECK(skips.size() > 0);
    for (std::size_t i = 0; i < skips.size(); ++i) {
      CHECK(skips[i].step == skipped[i].step);
      CHECK(skips[i].position == skipped[i].position);
    }
    CHECK_FALSE(trainer.step(loader[0]).position.has_value());
    trainer.set_position(BatchPosition{7, 3});
    CHECK(trainer.step(loader[0]).position == BatchPosition{7, 3});
    CHECK_FALSE(trainer.step(loader[0]).position.has_value());
  }
}

TEST_CASE("spikes: values that cannot work are errors") {
  auto text = [](SkipSpikes spikes) {
    return message_of<BadValue>([&] { Trainer{Spiky(), SGD{.lr = 0.1}, spikes}; });
  };
  CHECK(contains(text({.window = 1}), "window is 1"));
  CHECK(contains(text({.zscore = 0}), "zscore 0"));
  CHECK(contains(text({.max_skips = -1}), "max_skips -1"));
  Trainer trainer{Spiky(), SGD{.lr = 0.1}, few};
  CHECK(contains(trainer.describe(), "SkipSpikes  {window=6, zscore=5, max_skips=20}"));
  trainer.get<SkipSpikes>().window = 7;
  CHECK(
      contains(message_of<BadValue>([&] { trainer.step(batch_of(2, 1)); }), "window was changed"));
}

TEST_CASE("spikes: only the last are listed, and more in a row than max_skips are an error") {
  Trainer trainer{Spiky(), SGD{.lr = 0.1}, SkipSpikes{.window = 4, .zscore = 3, .max_skips = 70}};
  for (int i = 0; i < 4; ++i) trainer.step(batch_of(2 + 0.1 * i, 1));
  for (int i = 0; i < 70; ++i) CHECK(trainer.step(batch_of(100 + i, 1)).skipped());
  const StateDict state = trainer.state();
  CHECK(contains(message_of<NonFinite>([&] { trainer.step(batch_of(9, 1)); }),
                 "SkipSpikes: more than 70 steps in a row"));
  CHECK(same_state(trainer.state(), state));
  CHECK_FALSE(trainer.step(batch_of(2, 1)).skipped());  // the row ends
  CHECK(trainer.step(batch_of(9, 1)).skipped());
  const auto skips = trainer.mechanism<SkipSpikes>().skips();
  CHECK(trainer.mechanism<SkipSpikes>().skipped() == 71);
  REQUIRE(skips.size() == 64);
  CHECK(skips.front().loss == 107);
  CHECK(skips[62].loss == 169);
  CHECK(skips.back().loss == 9);
  CHECK(skips.back().step == 75);
  trainer.get<SkipSpikes>().max_skips = 0;
  CHECK_THROWS_AS(trainer.step(batch_of(9, 1)), NonFinite);
}

}  // namespace guarantees::spikes
