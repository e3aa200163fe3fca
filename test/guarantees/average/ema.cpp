// Tests that EMA equals a loop in double precision, that evaluation uses the average and changes
// nothing, and that a rejected step changes no bit of the average.
#include "guarantees/guarantees.hpp"

#include "trainer/mixed.hpp"

namespace guarantees::ema {

namespace mixed = test::mixed;
using test::same_bits;
using test::values_of;

torch::nn::Sequential net() {
  return seeded([] {
    return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                                 torch::nn::Linear(8, 3));
  });
}
std::vector<Rows> data(std::int64_t steps = 6) { return class_batches(steps, 7, 4, 3); }

/// Returns a model with these values of its parameters and buffers.
template <class Model>
Model with_values(Model model, const Tensors& values) {
  torch::NoGradGuard no_grad;
  std::size_t i = 0;
  for (auto& p : model->parameters()) p.copy_(values[i++]);
  for (auto& b : model->buffers()) b.copy_(values[i++]);
  return model;
}
template <class Trainer>
Tensors averaged_of(Trainer& trainer) {
  return trainer.with_full_weights([](auto& model) { return values_of(model); },
                                   {.averaged = true});
}

TEST_CASE("EMA: equals a loop in double precision, and the first update copies") {
  for (double decay : {0.0, 0.3, 0.9, 1.0}) {
    CAPTURE(decay);
    auto model = net();
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.05}, EMA{.decay = decay}};
    Tensors expected;
    for (const auto& batch : data()) {
      trainer.step(batch);
      Tensors now = parameters_of(model);
      for (auto& t : now) t = t.to(at::kDouble);
      if (expected.empty()) expected = now;
      for (std::size_t i = 0; i < now.size(); ++i)
        expected[i] = decay * expected[i] + (1 - decay) * now[i];
      Tensors averages = trainer.template mechanism<EMA>().averages();
      REQUIRE(averages.size() == now.size());
      for (std::size_t i = 0; i < now.size(); ++i)
        CHECK(largest_difference(averages[i], expected[i]) < 1e-6);
    }
  }
}

TEST_CASE("EMA: training does not change a bit by it") {
  Trace with = trained(Trainer{net(), CrossEntropyLoss{}, AdamW{}, EMA{}}, data());
  Trace without = trained(Trainer{net(), CrossEntropyLoss{}, AdamW{}}, data());
  CHECK(same_bits(with, without));
}

TEST_CASE("EMA: evaluate uses the average and restores the trained weights to the bit") {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.1}, EMA{.decay = 0.5}};
  auto batches = data();
  double before = trainer.evaluate(batches).loss;  // before the first update: the trained weights
  CHECK(before == Trainer{net(), CrossEntropyLoss{}}.evaluate(batches).loss);
  for (const auto& batch : batches) trainer.step(batch);

  Tensors weights = values_of(model), averages = averaged_of(trainer);
  CHECK_FALSE(same_bits(weights, averages));
  double loss = trainer.evaluate(batches).loss;
  CHECK(same_bits(values_of(model), weights));
  CHECK(same_bits(averaged_of(trainer), averages));
  CHECK(same_bits(trainer.with_full_weights([](auto& m) { return values_of(m); }), weights));

  auto other = with_values(net(), averages);
  CHECK(Trainer{other, CrossEntropyLoss{}}.evaluate(batches).loss == loss);
}

TEST_CASE("EMA: an exception in an evaluation restores the trained weights") {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.1}, EMA{.decay = 0.5}};
  for (const auto& batch : data()) trainer.step(batch);
  Rows good = data(1)[0], bad = good;
  bad.input = bad.input.narrow(1, 0, 2);
  const StateDict state = trainer.state();
  CHECK_THROWS_AS(trainer.evaluate(std::vector{good, bad}), Error);
  CHECK_THROWS_AS(
      trainer.with_full_weights([](auto&) -> int { throw std::exception(); }, {.averaged = true}),
      std::exception);
  CHECK_THROWS_AS(trainer.with_full_weights([&](auto&) { trainer.step(good); }, {.averaged = true}),
                  Error);
  CHECK(same_state(trainer.state(), state));
}

TEST_CASE("EMA: aliases of a weight see the average in evaluation, and older graphs stay valid") {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.1}, EMA{.decay = 0.5}};
  for (const auto& batch : data()) trainer.step(batch);
  at::Tensor weight = model->parameters()[0], alias = weight.detach().t();
  at::Tensor graph = (weight * weight).sum();
  trainer.with_full_weights(
      [&](auto&) {
        CHECK(same_bits(alias, weight.t()));
        CHECK(same_bits(weight, trainer.template mechanism<EMA>().averages()[0]) == false);
      },
      {.averaged = true});
  graph.backward();
  CHECK(same_bits(weight.grad(), weight.detach() * 2));
}

TEST_CASE("EMA: with use_buffers, floating-point buffers are averaged and integer ones copied") {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, EMA{.decay = 0.5, .use_buffers = true}};
  Tensors expected;
  for (const auto& batch : data()) {
    trainer.step(batch);
    Tensors now;
    for (const auto& b : model->buffers()) now.push_back(b.to(at::kDouble));
    if (expected.empty()) expected = now;
    for (std::size_t i = 0; i < now.size(); ++i)
      expected[i] = model->buffers()[i].is_floating_point() ? 0.5 * (expected[i] + now[i]) : now[i];
  }
  Tensors weights = values_of(model), averages = averaged_of(trainer);
  std::size_t first = model->parameters().size();
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(largest_difference(averages[first + i].to(at::kDouble), expected[i]) < 1e-6);
  CHECK(same_bits(values_of(model), weights));
  CHECK_FALSE(same_bits(weights, averages));
}

TEST_CASE("EMA: a step that the host rejects leaves the average unchanged") {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, EMA{.decay = 0.5},
                  Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}};
  int skipped = 0;
  for (const auto& batch : class_batches(30, 7, 4, 3)) {
    Tensors before = averaged_of(trainer);
    bool skips = trainer.step(batch).skipped();
    skipped += skips;
    Tensors after = averaged_of(trainer);
    std::size_t n = model->parameters().size();
    before.resize(n), after.resize(n);
    CHECK(same_bits(before, after) == skips);
  }
  CHECK(skipped > 2);
  CHECK(skipped < 28);
}

/// Values that arithmetic would change to other bits of an equal value: zeros of both signs.
at::Tensor zeros_and_others() { return at::tensor({-0.0f, 0.0f, -0.0f, 1.0f, -2.0f}); }

TEST_CASE("EMA: found_inf on a device: a rejected step changes no bit, the first update copies") {
  using ikebana::detail::AverageFlags;
  using ikebana::detail::Averages;
  at::Tensor value = zeros_and_others(), counter = at::tensor({3});
  at::Tensor updates = at::zeros({}, at::kLong), rejected = at::ones({}), accepted = at::zeros({});
  Averages averages;
  averages.resize(2), averages.add(0, value), averages.add(1, counter);
  auto step = [&](const at::Tensor& found_inf) {  // as if the host could read neither
    AverageFlags flags;
    flags.on_host = false, flags.rejected_on_device = found_inf != 0;
    flags.weight_on_device = at::where(updates == 0, 1.0, 0.25);
    flags.updates_on_device = flags.rejected_on_device.logical_not().to(at::kLong);
    averages.prepare(flags), averages.update(flags), flags.count(updates);
  };
  value.copy_(at::arange(5)), counter.fill_(4);
  step(rejected);
  CHECK(same_bits(averages.all()[0], zeros_and_others()));
  CHECK(averages.all()[1].item<int>() == 3);
  step(accepted);
  CHECK(same_bits(averages.all()[0], value));
  CHECK(averages.all()[1].item<int>() == 4);
  value.add_(1);
  step(rejected);
  CHECK(same_bits(averages.all()[0], value - 1));
  step(accepted);
  CHECK(same_bits(averages.all()[0], value - 0.75));
  CHECK(updates.item<int>() == 2);
}

TEST_CASE("EMA: master weights in another place and dtype are averaged there") {
  auto check = [](auto away) {
    auto model = mixed::net();
    Trainer trainer{model, AdamW{.lr = 0.05}, EMA{.decay = 0.5}, away};
    Trainer<mixed::Net, AdamW, decltype(away)> plain(mixed::net(), AdamW{.lr = 0.05});
    auto weights = [](auto& t) {
      return t.with_full_weights([](auto& m) { return values_of(m); });
    };
    for (int s = 1; s < 6; ++s) trainer.step(mixed::sample(s)), plain.step(mixed::sample(s));
    CHECK(same_bits(weights(trainer), weights(plain)));
    Tensors averages = averaged_of(trainer);
    CHECK_FALSE(same_bits(averages, weights(plain)));
    for (const auto& average : trainer.template mechanism<EMA>().averages())
      if (average.defined()) CHECK((average.scalar_type() == at::kDouble));
    auto batches = std::vector{mixed::sample(7)};
    double loss = trainer.evaluate(batches).loss;
    CHECK(loss != plain.evaluate(batches).loss);
    auto other = with_values(mixed::net(), averages);
    CHECK(loss == Trainer<mixed::Net>(other).evaluate(batches).loss);
    CHECK(same_bits(weights(trainer), weights(plain)));
    trainer.step(mixed::sample(8)), plain.step(mixed::sample(8));
    CHECK(same_bits(weights(trainer), weights(plain)));
  };
  check(mixed::Away{}), check(mixed::AwayKept{});
}

TEST_CASE("EMA: a parameter without gradients takes no memory until it gets one") {
  auto model = net();
  auto weight = model->parameters()[0];
  weight.requires_grad_(false);
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.5}, EMA{.decay = 0.5}};
  auto batches = data();
  for (int s = 0; s < 3; ++s) trainer.step(batches[0]);
  auto& ema = trainer.mechanism<EMA>();
  CHECK_FALSE(ema.averages()[0].defined());
  CHECK(ema.averages()[1].defined());
  at::Tensor before = weight.detach().clone();
  weight.requires_grad_(true);
  trainer.step(batches[1]);
  CHECK(largest_difference(ema.averages()[0], (before + weight.detach()) / 2) < 1e-6);
}

TEST_CASE("EMA: training continues to the bit from a restored state") {
  auto make = [](bool buffers) {
    return Trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.05},
                   EMA{.decay = 0.7, .use_buffers = buffers}};
  };
  for (bool buffers : {false, true})
    for (std::size_t cut : {0, 1, 3}) {
      CAPTURE(cut);
      auto whole = make(buffers), first = make(buffers), second = make(buffers);
      auto batches = data();
      for (std::size_t s = 0; s < batches.size(); ++s) {
        if (s == cut) second.restore(first.state());
        whole.step(batches[s]), (s < cut ? first : second).step(batches[s]);
      }
      CHECK(same_state(whole.state(), second.state()));
      CHECK(whole.state().size() == second.state().size());
      CHECK(same_bits(averaged_of(whole), averaged_of(second)));
    }
}

TEST_CASE("EMA: a decay outside 0 to 1 is an error, also when set through get") {
  auto make = [](double decay) { return Trainer{net(), CrossEntropyLoss{}, EMA{.decay = decay}}; };
  CHECK(test::contains(test::message_of<BadValue>([&] { make(1.5); }), "decay is 1.5"));
  auto trainer = make(0.9);
  trainer.get<EMA>().decay = NAN;
  CHECK_THROWS_AS(trainer.step(data()[0]), BadValue);
}

}  // namespace guarantees::ema
