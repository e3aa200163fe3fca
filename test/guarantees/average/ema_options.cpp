// EMA that begins with the initial weights, and whose decay warms up.
#include "guarantees/capture/recorded.hpp"

#include "averages.hpp"

namespace guarantees::ema_options {

using namespace averages;
using test::contains;
using test::message_of;
using test::same_bits;

TEST_CASE("EMA: from_initial_weights begins with the weights before the first update") {
  for (const bool warmup : {false, true})
    for (const double decay : {0.3, 0.9}) {
      CAPTURE(warmup);
      auto model = net();
      Trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.05}}.step(data(1)[0]);
      Trainer averaging{model, CrossEntropyLoss{}, AdamW{.lr = 0.05},
                        EMA{.decay = decay, .from_initial_weights = true, .warmup = warmup}};
      Tensors expected = doubles_of(model);
      double n = 0;
      for (const auto& batch : data(12)) {
        averaging.step(batch);
        const double d = warmup ? std::min(decay, (1 + n) / (10 + n)) : decay;
        ++n;
        const Tensors now = doubles_of(model);
        for (std::size_t i = 0; i < now.size(); ++i)
          expected[i] = d * expected[i] + (1 - d) * now[i];
        CHECK(error_of(averaging.mechanism<EMA>().averages(), expected) < 1e-6);
      }
    }
}

TEST_CASE("EMA: with warmup the first update copies, and the decay grows to its value") {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.05}, EMA{.decay = 0.4, .warmup = true}};
  Tensors expected;
  double n = 0;
  for (const auto& batch : data(12)) {
    trainer.step(batch);
    const Tensors now = doubles_of(model);
    const double d = n == 0 ? 0 : std::min(0.4, (1 + n) / (10 + n));
    if (n++ == 0) expected = now;
    for (std::size_t i = 0; i < now.size(); ++i) expected[i] = d * expected[i] + (1 - d) * now[i];
    CHECK(error_of(trainer.mechanism<EMA>().averages(), expected) < 1e-6);
  }
  CHECK(contains(trainer.describe(), "EMA  {decay=0.4, warmup}"));
}

TEST_CASE("EMA: from_initial_weights resumes to the bit, and load_weights starts it anew") {
  const EMA ema{.decay = 0.7, .use_buffers = true, .from_initial_weights = true, .warmup = true};
  auto make = [&] { return Trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.05}, ema}; };
  const auto batches = data(5);
  for (std::size_t cut : {0, 1, 3}) {
    auto whole = make(), first = make(), second = make();
    for (std::size_t s = 0; s < batches.size(); ++s) {
      if (s == cut) second.restore(first.state());
      whole.step(batches[s]), (s < cut ? first : second).step(batches[s]);
    }
    CHECK(same_state(whole.state(), second.state()));
  }
  auto trainer = make();
  for (const auto& batch : batches) trainer.step(batch);
  trainer.replace_weights([](auto& model) {
    torch::NoGradGuard no_grad;
    for (auto& p : model->parameters()) p.fill_(0.5);
  });
  auto fresh = parameters_of(trainer.model());
  CHECK(same_bits(averaged_of(trainer), fresh));
  trainer.step(batches[0]);
  const Tensors now = parameters_of(trainer.model());
  for (std::size_t i = 0; i < now.size(); ++i) fresh[i] = 0.1 * fresh[i] + 0.9 * now[i];
  CHECK(error_of(trainer.mechanism<EMA>().averages(), fresh) < 1e-6);
}

TEST_CASE("EMA: from_initial_weights is an error with InBackward, and when it is changed") {
  const EMA ema{.from_initial_weights = true};
  CHECK(contains(
      message_of<BadValue>([&] { Trainer{net(), CrossEntropyLoss{}, InBackward<AdamW>{}, ema}; }),
      "InBackward updates weights before"));
  Trainer trainer{net(), CrossEntropyLoss{}, InBackward<AdamW>{}, EMA{}};
  const auto batch = data(1)[0];
  trainer.step(batch);
  Trainer other{net(), CrossEntropyLoss{}, EMA{}};
  other.get<EMA>().from_initial_weights = true;
  CHECK(contains(message_of<BadValue>([&] { other.step(batch); }), "from_initial_weights was"));
}

TEST_CASE("EMA: where only the device knows, all its values have the bits of the host") {
  check_recording<RecordedNet>(
      "from the initial weights, warmup", 0, CrossEntropyLoss{}, AdamW{.lr = 0.01},
      EMA{.decay = 0.5, .use_buffers = true, .from_initial_weights = true, .warmup = true});
  check_recording<RecordedNet>("warmup", 0, CrossEntropyLoss{}, AdamW{.lr = 0.01},
                               EMA{.decay = 0.9, .warmup = true});
}

}  // namespace guarantees::ema_options
