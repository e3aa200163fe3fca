#pragma once
// Defines the properties that every recipe must have, whatever policies it combines.
#include "test.hpp"

#include <ikebana.hpp>

namespace matrix {

using namespace ikebana;

constexpr std::int64_t width = 16;
struct Rows {
  at::Tensor input, target;
};

/// A unit with random numbers and a residual.
struct BlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm = layer("norm", torch::nn::LayerNormOptions({width}));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(width, 2 * width));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(2 * width, width));
  at::Tensor forward(const at::Tensor& x) {
    return x + at::dropout(down(at::gelu(up(norm(x)))), 0.2, is_training());
  }

 private:
  torch::nn::LayerNorm layer(const char* name, const torch::nn::LayerNormOptions& options) {
    return register_module(name, torch::nn::LayerNorm(options));
  }
};
TORCH_MODULE(Block);
/// Another type of unit, with running statistics.
struct HeadImpl : torch::nn::Module {
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(width));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(width, width));
  at::Tensor forward(const at::Tensor& x) { return out(norm(x)); }
};
TORCH_MODULE(Head);

struct NetImpl : torch::nn::Module {
  using units = Units<Block, Head>;
  torch::nn::Conv2d first = register_module("first", torch::nn::Conv2d(convolution()));
  std::vector<Block> blocks;
  Head head = register_module("head", Head());
  NetImpl() {
    for (int i = 0; i < 3; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
  }
  template <class Run>
  at::Tensor forward(Run& run, at::Tensor x) {
    x = at::tanh(first(x.view({-1, 2, 4, 2}))).flatten(1);
    for (Block& block : blocks) x = run(block, x);
    return run(head, x);
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor logits = forward(run, batch.input);
    return {at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            batch.target.numel(), logits};
  }

 private:
  /// Maps rows as images of 2 channels to 4 channels of 2 x 2.
  static torch::nn::Conv2dOptions convolution() {
    return torch::nn::Conv2dOptions(2, 4, 3).stride({2, 1}).padding(1);
  }
};
TORCH_MODULE(Net);

inline Net net() {
  torch::manual_seed(3);
  return Net();
}
inline Rows rows_of(int seed, std::int64_t n = 16) {
  torch::manual_seed(static_cast<std::uint64_t>(100 + seed));
  return {torch::randn({n, width}), torch::randint(width, {n})};
}
inline const std::vector<Rows>& data() {
  static const std::vector<Rows> all = {rows_of(0), rows_of(1, 13), rows_of(2), rows_of(3)};
  return all;
}

// Policies whose values do not fit a line.
inline const WarmupStableDecayLR steady{.warmup_steps = 1, .stable_steps = 2, .decay_steps = 3};
inline const auto on_disk = std::filesystem::current_path();  // not in memory, as /tmp may be
inline const LambdaLR halved{.lr_lambda = [](std::int64_t step) { return step < 3 ? 1 : 0.5; }};

/// All results of a training: losses, an evaluation, and the whole state.
struct Outcome {
  std::vector<double> losses;
  StateDict state;
};

/// Trains on four more batches, and evaluates.
template <class T>
void go_on(T& trainer, Outcome& outcome) {
  FitOptions<Rows> options{.validate = data(), .progress = false};
  options.on_step = [&](const Report& report) { outcome.losses.push_back(report.loss()); };
  auto history = trainer.fit(data(), options);
  outcome.losses.push_back(history[0].validation->loss);
  outcome.state = trainer.state();
}

/// Trains by a loop of steps, which compiles in half the time and must equal `fit`.
template <class T>
void go_on_by_hand(T& trainer, Outcome& outcome) {
  Epoch epoch{.loss = 0};
  std::int64_t batch = 0;
  for (const Rows& rows : data()) {
    trainer.set_position(BatchPosition{0, batch++});
    outcome.losses.push_back(trainer.step(rows).loss());
    epoch.loss += outcome.losses.back() / static_cast<double>(data().size());
  }
  epoch.steps = std::ssize(data());
  epoch.validation = trainer.evaluate(data());
  trainer.end_epoch(epoch);
  outcome.losses.push_back(epoch.validation->loss);
  outcome.state = trainer.state();
}

/// Returns the part of the state that a failed step must not change. It is everything but random
/// numbers and running statistics, which forward has updated.
inline StateDict kept_by_failure(StateDict state) {
  std::erase_if(state, [](const auto& item) {
    return item.first.ends_with("_generator") || item.first.starts_with("head.norm.");
  });
  return state;
}
/// Returns the first name that differs, for the reader.
inline std::string difference(const StateDict& a, const StateDict& b) {
  for (const auto& [name, value] : a)
    if (!b.count(name) || !test::same_bits(value, b.at(name))) return name;
  return a.size() == b.size() ? "" : "other names";
}

/// Checks that a step that cannot be made leaves parameters, moments and counters as they were.
template <class T>
void fails_whole(T& trainer) {
  StateDict before = kept_by_failure(trainer.state());
  Rows bad = rows_of(9);
  bad.target[15] = width;
  CHECK_THROWS_AS(trainer.step(bad), Error);
  CHECK(difference(kept_by_failure(trainer.state()), before) == "");
}

/// `make` and `plainer` make trainers from the same weights; the second lacks the policies that
/// change only where and when things are computed.
template <class Make, class Plainer>
void guarantees_hold(Make make, Plainer plainer) {
  data();  // draws random numbers
  Outcome outcome, plain, resumed;
  auto trainer = make();
  go_on(trainer, outcome);
  const StateDict half = outcome.state;
  CHECK(outcome.losses[0] != outcome.losses[1]);
  go_on(trainer, outcome);

  auto other = plainer();  // the policies that it lacks change no bit
  go_on_by_hand(other, plain), go_on_by_hand(other, plain);
  CHECK(outcome.losses == plain.losses);
  CHECK(difference(outcome.state, plain.state) == "");

  auto again = make();  // a resumed run equals an uninterrupted one
  again.restore(half);
  go_on(again, resumed);
  CHECK(difference(resumed.state, outcome.state) == "");

  fails_whole(trainer);
  go_on(trainer, outcome);  // and it continues to train
  for (double loss : outcome.losses) CHECK(std::isfinite(loss));
}

}  // namespace matrix
