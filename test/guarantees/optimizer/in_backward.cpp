// InBackward: the same bits as its optimizer, and each gradient is freed after its update.
#include "test.hpp"

#include "alone.hpp"
#include "guarantees/zoo.hpp"

namespace guarantees::in_backward {

using Optimizers = Choices<AdamW, SGD, Adagrad, Lion, Adafactor, Muon, SparseAdam, AdamW8bit>;

template <class O, class... Words>
Trace by(O values, Kind kind, Words... words) {
  auto model = seeded([&] { return Zoo(kind); });
  return trained(Trainer<Zoo, O, Words...>(model, values, words...),
                 class_batches(4, 6, width, classes));
}
template <class O, class... Words>
void same_as_alone(O values, const std::string& what, Words... words) {
  for (Kind kind : {Kind::Chain, Kind::Nested, Kind::Twice, Kind::Integers, Kind::Penalty}) {
    INFO(what << ", " << name_of(kind));
    auto alone = by(values, kind, words...);
    CHECK(moved(alone, 4));
    CHECK(test::same_bits(by(InBackward<O>{values}, kind, words...), alone));
  }
}

/// Layers of one size, whose gradients are all the memory that a step needs beside small
/// activations.
struct WideImpl : torch::nn::Module {
  std::vector<torch::nn::Linear> layers;
  explicit WideImpl(int n) {
    for (int i = 0; i < n; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), torch::nn::Linear(128, 128)));
  }
  template <class Run>
  Loss loss(Run&, const at::Tensor& input) {
    at::Tensor x = input;
    for (auto& layer : layers) x = at::tanh(layer(x));
    if (spoil) x = x * std::numeric_limits<double>::quiet_NaN();
    if (after) x.register_hook([this](const at::Tensor&) { after(); });
    return {x.square().sum(), x.numel()};
  }
  bool spoil = false;
  std::function<void()> after;
};
TORCH_MODULE(Wide);

template <class O>
std::int64_t peak_of(int layers) {
  bridge::MemoryCounter counter(at::kCPU);
  Trainer<Wide, O> trainer{Wide(layers)};
  auto input = torch::ones({1, 128});
  trainer.step(input);
  auto before = counter.now();
  counter.reset_peak();
  trainer.step(input);
  return counter.peak() - before;
}

TEST_CASE("in backward: the bits of the optimizer alone, for every optimizer") {
  Optimizers::each([]<class O>(const std::string& name) { same_as_alone(O{.lr = 0.01}, name); });
}

TEST_CASE("in backward: the bits of the optimizer alone, whatever else is in the recipe") {
  AdamW adamw{.lr = 0.01, .groups = {{.match = named("*.bias"), .lr = 0.05}, no_decay()}};
  same_as_alone(adamw, "groups and a schedule", LinearLR{.total_iters = 3, .warmup_steps = 1});
  same_as_alone(adamw, "BF16 and Full", Precision<BF16>{}, Checkpoint<Full>{});
  same_as_alone(adamw, "Selective", Checkpoint<Selective>{});
  same_as_alone(adamw, "Segments", Checkpoint<Segments<>>{});
  same_as_alone(adamw, "BF16Weights", Precision<BF16Weights>{.allow_unused_units = true});
  same_as_alone(adamw, "BF16True", Precision<BF16True>{});
  same_as_alone(adamw, "EMA", EMA{.decay = 0.5});
  same_as_alone(adamw, "EMA and BF16Weights", EMA{.decay = 0.5},
                Precision<BF16Weights>{.allow_unused_units = true});
}

TEST_CASE("in backward: an average has the bits that it has without InBackward") {
  auto averages = [](auto optimizer) {
    Shapes model(at::kFloat);  // one of its parameters has no gradient in the first step
    Trainer trainer{model, optimizer, Pulls{.plan = in_turn}, EMA{.decay = 0.5}};
    for (int s = 0; s < 5; ++s) trainer.step(torch::ones({1}));
    return trainer.with_full_weights([](auto& whole) { return parameters_of(whole); },
                                     {.averaged = true});
  };
  CHECK(test::same_bits(averages(InBackward<SGD>{{.lr = 0.1}}), averages(SGD{.lr = 0.1})));
  CHECK(test::same_bits(averages(InBackward<Muon>{{.lr = 0.1}}), averages(Muon{.lr = 0.1})));
}

TEST_CASE("in backward: a step holds some gradients at a time, not all") {
  constexpr std::int64_t layer = 128 * 128 * 4;
  CHECK(peak_of<SGD>(12) - peak_of<SGD>(6) >= 6 * layer);
  CHECK(peak_of<InBackward<SGD>>(12) - peak_of<InBackward<SGD>>(6) < layer);
  CHECK(peak_of<InBackward<AdamW>>(12) < peak_of<AdamW>(12) - 8 * layer);
}

TEST_CASE("in backward: a loss that is not finite updates nothing") {
  Wide model(3);
  Trainer<Wide, InBackward<AdamW>> trainer{model};
  auto input = torch::ones({2, 128});
  trainer.step(input);
  auto before = trainer.state();
  model->spoil = true;
  CHECK_THROWS_AS(trainer.step(input), NonFinite);
  CHECK(same_state(trainer.state(), before));
  for (const auto& p : model->parameters()) CHECK_FALSE(p.grad().defined());
  model->spoil = false;
  CHECK_NOTHROW(trainer.step(input));
}

TEST_CASE("in backward: several microbatches are an error before anything is updated") {
  Trainer<Wide, InBackward<SGD>> trainer{Wide(2)};
  auto before = trainer.state();
  std::vector<std::tuple<at::Tensor>> batches(2, {torch::ones({2, 128})});
  auto text = test::message_of<BadBatch>([&] { trainer.step(batches); });
  CHECK(test::contains(text, "has 2 microbatches"));
  CHECK(same_state(trainer.state(), before));
}

TEST_CASE("in backward: after an exception in backward the trainer can be used") {
  Wide model(3);
  Trainer<Wide, InBackward<SGD>> trainer(model, InBackward<SGD>{{.lr = 0.01}});
  auto input = torch::ones({2, 128});
  model->after = [] { throw std::runtime_error("no backward"); };
  CHECK(test::message_of([&] { trainer.step(input); }) == "no backward");
  CHECK(trainer.steps() == 0);
  model->after = {};
  CHECK_NOTHROW(trainer.step(input));
  CHECK(trainer.steps() == 1);
}

TEST_CASE("in backward: a backward that is not part of the step updates nothing") {
  Wide model(2);
  Trainer<Wide, InBackward<SGD>> trainer{model};
  auto before = parameters_of(model);
  model->loss(plain, torch::ones({2, 128})).sum.backward();
  CHECK(test::same_bits(parameters_of(model), before));
  for (const auto& p : model->parameters()) CHECK(p.grad().defined());
}

TEST_CASE("in backward: values change between steps, and a state is restored to the bit") {
  auto batches = class_batches(6, 6, width, classes);
  auto make = [] {
    auto model = seeded([] { return Zoo(Kind::Chain); });
    InBackward<AdamW> values{{.lr = 0.01, .groups = {no_decay()}}};
    return Trainer<Zoo, InBackward<AdamW>>(model, values);
  };
  auto one = make(), two = make();
  StateDict half;
  for (int i = 0; i < 6; ++i) {
    if (i == 2) one.get<InBackward<AdamW>>().optimizer.lr = 0.002;
    if (i == 4) half = one.state();
    CHECK(one.step(batches[static_cast<std::size_t>(i)]).learning_rate == (i < 2 ? 0.01 : 0.002));
  }
  two.restore(half);
  CHECK(two.get<InBackward<AdamW>>().optimizer.lr == 0.002);
  for (std::size_t i : {4u, 5u}) two.step(batches[i]);
  CHECK(same_state(one.state(), two.state()));
}

TEST_CASE("in backward: what it does not support is an error when the trainer is constructed") {
  InBackward<AdamW> negative{{.lr = -1}};
  CHECK(test::contains(
      test::message_of<BadValue>([&] { Trainer<Wide, InBackward<AdamW>>(Wide(1), negative); }),
      "lr is -1"));
  InBackward<AdamW> lost{{.groups = {{.match = named("nobody.*")}}}};
  CHECK(test::contains(
      test::message_of<BadValue>([&] { Trainer<Wide, InBackward<AdamW>>(Wide(1), lost); }),
      "group 0 matches no parameter"));
}

}  // namespace guarantees::in_backward
