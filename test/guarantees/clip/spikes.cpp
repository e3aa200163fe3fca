// Tests that SkipSpikes skips what lies above the window, as a loop in double precision says, that
// a step that it skips changes nothing else, and that what it remembers continues to the bit.
#include <deque>

#include "guarantees/capture/recorded.hpp"
#include "guarantees/guarantees.hpp"

namespace guarantees::spikes {

/// Its loss is the batch's input, and its gradient the batch's target.
struct SpikyImpl : torch::nn::Module {
  at::Tensor w = register_parameter("w", torch::zeros({3}));
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    const at::Tensor nothing = ((w - w.detach()) * batch.target).sum();
    return {batch.input.sum() + nothing, 1};
  }
};
TORCH_MODULE(Spiky);

inline Rows batch_of(double loss, double norm) {
  return {at::full({1, 1}, loss), at::tensor({0.6, 0.0, 0.8}).view({1, 3}).to(at::kFloat) * norm};
}
/// Returns losses about 2 and norms about 1, sometimes with a spike of either kind.
inline std::vector<Rows> data(int steps = 40) {
  torch::manual_seed(5);
  std::vector<Rows> all;
  for (int i = 0; i < steps; ++i) {
    const double loss = 2 + 0.1 * at::randn({}).item<double>() + (i % 9 == 7 ? 3 : 0);
    const double norm = 1 + 0.1 * at::randn({}).item<double>() + (i % 11 == 10 ? 2 : 0);
    all.push_back(batch_of(loss, norm));
  }
  return all;
}
inline const SkipSpikes few{.window = 6, .zscore = 5};

using test::contains;
using test::message_of;
using test::same_bits;

/// The window as a loop: whether a step is skipped, and its scores.
struct ByHand {
  std::size_t window;
  double zscore;
  std::deque<std::pair<double, double>> made = {};

  double score(double x, double std::pair<double, double>::* which) const {
    double mean = 0, squares = 0;
    const auto n = static_cast<double>(made.size());
    for (const auto& one : made) mean += one.*which / n;
    for (const auto& one : made) squares += (one.*which - mean) * (one.*which - mean);
    const double deviation = std::max(std::sqrt(squares / (n - 1)), 1e-3 * std::abs(mean));
    return (x - mean) / deviation;
  }
  bool skips(double loss, double norm, Spike& spike) {
    using Pair = std::pair<double, double>;
    if (made.size() == window) {
      spike.loss_zscore = score(loss, &Pair::first), spike.norm_zscore = score(norm, &Pair::second);
      if (spike.loss_zscore > zscore || spike.norm_zscore > zscore) return true;
      made.pop_front();
    }
    return made.emplace_back(loss, norm), false;
  }
};

template <class... Policies>
void equals_loop(const Policies&... policies) {
  Trainer trainer{Spiky(), SGD{.lr = 0.1}, policies..., few};
  ByHand by_hand{6, 5};
  std::vector<Spike> expected;
  for (const Rows& batch : data()) {
    const Report report = trainer.step(batch);
    Spike spike{report.step, report.loss(), *report.grad_norm()};
    const bool skips = by_hand.skips(spike.loss, spike.norm, spike);
    CHECK(report.skipped() == skips);
    if (skips) expected.push_back(spike);
  }
  CHECK(expected.size() > 4);
  const auto& mechanism = trainer.template mechanism<SkipSpikes>();
  CHECK(mechanism.skipped() == std::ssize(expected));
  const auto skips = mechanism.skips();
  REQUIRE(skips.size() == expected.size());
  for (std::size_t i = 0; i < skips.size(); ++i) {
    CHECK(skips[i].step == expected[i].step);
    CHECK(skips[i].loss == expected[i].loss);
    CHECK(skips[i].norm == expected[i].norm);
    CHECK(skips[i].loss_zscore == doctest::Approx(expected[i].loss_zscore).epsilon(1e-9));
    CHECK(skips[i].norm_zscore == doctest::Approx(expected[i].norm_zscore).epsilon(1e-9));
    CHECK_FALSE(skips[i].position.has_value());
  }
}

TEST_CASE("spikes: a loss or a norm above the window is skipped, as a loop in double says") {
  equals_loop();
  equals_loop(ClipGradNorm{.max_norm = 0.5});  // takes its norm from ClipGradNorm
  equals_loop(GradNorm{});
  equals_loop(EMA{}, CosineAnnealingLR{.T_max = 100});
}

TEST_CASE("spikes: the norm is that of the gradients as policies before it left them") {
  auto skipped = [](const auto&... policies) {
    Trainer trainer{Spiky(), SGD{.lr = 0.1}, policies...};
    for (const Rows& batch : data()) trainer.step(batch);
    return trainer.template mechanism<SkipSpikes>().skipped();
  };
  const ClipGradValue value{.clip_value = 0.1};  // makes all norms equal
  CHECK(skipped(value, few) < skipped(few));
  CHECK(skipped(few, value) == skipped(few));
}

/// Returns a state without what SkipSpikes and the trainer count, and without the generator.
StateDict without_counters(StateDict state) {
  std::erase_if(state, [](const auto& item) {
    return item.first.starts_with("ikebana.trainer.") || item.first.starts_with("ikebana.rng") ||
           item.first.ends_with(".skips") || item.first.ends_with(".skips_in_a_row") ||
           item.first.ends_with(".places_of_skips") || item.first.ends_with(".skipped") ||
           item.first.ends_with("SkipSpikes.steps");
  });
  return state;
}

TEST_CASE("spikes: a step that is skipped changes no bit, as if its batch had not been there") {
  auto make = [] {
    return Trainer{Spiky(), AdamW{.lr = 0.1}, few, EMA{.decay = 0.5, .warmup = true}};
  };
  auto all = make(), others = make();
  int skips = 0;
  for (const Rows& batch : data()) {
    const StateDict before = all.state();
    const bool skipped = all.step(batch).skipped();
    skips += skipped;
    if (!skipped) others.step(batch);
    StateDict after = all.state();
    CHECK(same_state(without_counters(before), without_counters(after)) == skipped);
    CHECK(same_state(without_counters(after), without_counters(others.state())));
  }
  CHECK(skips > 4);
  CHECK(all.steps() == others.steps() + skips);
  CHECK(others.mechanism<SkipSpikes>().skipped() == 0);
}

// The norm of such a gradient overflows.
TEST_CASE("spikes: what is not finite is left to other checks, and never enters the window") {
  Trainer trainer{Spiky(), SGD{.lr = 0.1}, few};
  Trainer skipping{Spiky(), SGD{.lr = 0.1},
                   SkipSpikes{.window = 6, .zscore = 5, .error_if_nonfinite = false}};
  for (const Rows& batch : data(6)) trainer.step(batch), skipping.step(batch);
  const StateDict state = trainer.state(), other = skipping.state();
  CHECK(contains(message_of<NonFinite>([&] { trainer.step(batch_of(NAN, 1)); }), "the loss is"));
  CHECK(contains(message_of<NonFinite>([&] { trainer.step(batch_of(2, 3e38)); }),
                 "SkipSpikes: the norm of the gradients is not finite"));
  CHECK(same_state(trainer.state(), state));
  CHECK(skipping.step(batch_of(2, 3e38)).skipped());
  CHECK(skipping.mechanism<SkipSpikes>().skipped() == 0);
  CHECK(same_state(without_counters(skipping.state()), without_counters(other)));
}

TEST_CASE("spikes: training continues to the bit from a restored state, whenever it was saved") {
  auto make = [] { return Trainer{Spiky(), AdamW{.lr = 0.1}, few, GradNorm{}}; };
  const auto batches = data(30);
  for (std::size_t cut = 0; cut < batches.size(); ++cut) {
    CAPTURE(cut);
    auto whole = make(), first = make(), second = make();
    second.step(batches[7]);
    for (std::size_t s = 0; s < batches.size(); ++s) {
      if (s == cut) second.restore(first.state());
      const bool skipped = whole.step(batches[s]).skipped();
      CHECK((s < cut ? first : second).step(batches[s]).skipped() == skipped);
    }
    CHECK(same_state(whole.state(), second.state()));
    CHECK(whole.mechanism<SkipSpikes>().skips().size() > 1);
  }
}

TEST_CASE("spikes: a window of equal values skips from zscore thousandths of the mean on") {
  Trainer trainer{Spiky(), SGD{.lr = 0.1}, SkipSpikes{.window = 4, .zscore = 6}};
  for (int i = 0; i < 4; ++i) CHECK_FALSE(trainer.step(batch_of(2, 1)).skipped());
  CHECK(trainer.step(batch_of(2.0121, 1)).skipped());
  CHECK_FALSE(trainer.step(batch_of(2.0119, 1)).skipped());
  CHECK_FALSE(trainer.step(batch_of(-50, 0.1)).skipped());  // below is no spike
}

TEST_CASE("spikes: where only the device knows, every step has the bits of the host") {
  check_recording<RecordedNet>("spikes", 0, CrossEntropyLoss{}, AdamW{.lr = 0.01},
                               SkipSpikes{.window = 2, .zscore = 0.5}, EMA{.decay = 0.9});
  check_recording<LateNet>("with a norm", 0, AdamW{.lr = 0.01}, ClipGradNorm{.max_norm = 0.1},
                           SkipSpikes{.window = 2, .zscore = 0.5}, Accumulate<3>{});
}

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
