// Tests that SWA equals a loop in double precision, by the steps that it averages, and EMA that
// begins with the initial weights, and whose decay warms up.
#include "guarantees/guarantees.hpp"

#include "guarantees/capture/recorded.hpp"

namespace guarantees::swa {

using test::contains;
using test::message_of;
using test::same_bits;

torch::nn::Sequential net() {
  return seeded([] {
    return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                                 torch::nn::Linear(8, 3));
  });
}
std::vector<Rows> data(std::int64_t steps) { return class_batches(steps, 7, 4, 3); }
Tensors doubles_of(torch::nn::Sequential& model) {
  Tensors all = parameters_of(model);
  for (auto& t : all) t = t.to(at::kDouble);
  return all;
}
template <class Trainer>
Tensors averaged_of(Trainer& trainer) {
  return trainer.with_averaged_weights([](auto& model) { return parameters_of(model); });
}
/// Returns the largest difference of averages, of which each exists, from a reference.
double error_of(const Tensors& averages, const Tensors& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i)
    largest = std::max(largest, largest_difference(averages.at(i), expected[i]));
  return largest;
}

TEST_CASE("SWA: the mean of the weights after start_step and every so many steps from then on") {
  for (const auto& [start, every] : {std::pair<int, int>{0, 1}, {1, 1}, {4, 1}, {0, 3}, {2, 3}}) {
    CAPTURE(start);
    CAPTURE(every);
    auto model = net();
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.05},
                    SWA{.start_step = start, .every_steps = every}};
    std::vector<Tensors> taken;
    std::int64_t steps = 0;
    for (const auto& batch : data(9)) {
      trainer.step(batch);
      ++steps;
      if (steps >= start && (steps - start) % every == 0) taken.push_back(doubles_of(model));
      auto& swa = trainer.template mechanism<SWA>();
      CHECK(swa.n_averaged() == std::ssize(taken));
      if (taken.empty()) {
        CHECK(same_bits(averaged_of(trainer), parameters_of(model)));
        continue;
      }
      Tensors mean = taken[0];
      for (std::size_t i = 0; i < mean.size(); ++i) {
        for (std::size_t k = 1; k < taken.size(); ++k) mean[i] = mean[i] + taken[k][i];
        mean[i] = mean[i] / static_cast<double>(taken.size());
      }
      CHECK(error_of(swa.averages(), mean) < 1e-6);
      if (taken.size() == 1) CHECK(error_of(swa.averages(), mean) == 0);  // it copies
    }
  }
}

TEST_CASE("SWA: takes no memory before its first average, and training has the same bits") {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, SWA{.start_step = 3}};
  auto batches = data(6);
  for (int s = 0; s < 2; ++s) trainer.step(batches[0]);
  for (const auto& average : trainer.mechanism<SWA>().averages()) CHECK_FALSE(average.defined());
  Trace with = trained(Trainer{net(), CrossEntropyLoss{}, AdamW{}, SWA{.every_steps = 2}}, batches);
  Trace without = trained(Trainer{net(), CrossEntropyLoss{}, AdamW{}}, batches);
  CHECK(same_bits(with, without));
}

TEST_CASE("SWA: a step that is skipped when one is due adds nothing and changes no bit") {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, SWA{.start_step = 2, .every_steps = 2},
                  Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}};
  std::int64_t taken = 0, lost = 0, steps = 0;
  for (const auto& batch : data(30)) {
    const auto before = averaged_of(trainer);
    const bool skips = trainer.step(batch).skipped(), due = ++steps % 2 == 0;
    taken += due && !skips, lost += due && skips;
    CHECK(trainer.mechanism<SWA>().n_averaged() == taken);
    if (taken > 0 && (!due || skips)) CHECK(same_bits(averaged_of(trainer), before));
  }
  CHECK(taken > 3);
  CHECK(lost > 0);
}

TEST_CASE("SWA: training continues to the bit from a restored state, whenever it was saved") {
  auto make = [](bool buffers) {
    return Trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.05},
                   SWA{.start_step = 2, .every_steps = 2, .use_buffers = buffers}};
  };
  const auto batches = data(6);
  for (bool buffers : {false, true})
    for (std::size_t cut = 0; cut < batches.size(); ++cut) {
      CAPTURE(cut);
      auto whole = make(buffers), first = make(buffers), second = make(buffers);
      second.step(batches[5]);  // what a state replaces
      for (std::size_t s = 0; s < batches.size(); ++s) {
        if (s == cut) second.restore(first.state());
        whole.step(batches[s]), (s < cut ? first : second).step(batches[s]);
      }
      CHECK(same_state(whole.state(), second.state()));
      CHECK(same_bits(averaged_of(whole), averaged_of(second)));
      CHECK(whole.evaluate(batches).loss == second.evaluate(batches).loss);
    }
}

TEST_CASE("SWA: a weight that is trained later was equal to itself in all averages before") {
  auto model = net();
  auto weight = model->parameters()[0];
  weight.requires_grad_(false);
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.5}, SWA{}};
  const auto batches = data(4);
  const at::Tensor before = weight.detach().clone();
  for (int s = 0; s < 3; ++s) trainer.step(batches[0]);
  weight.requires_grad_(true);
  trainer.step(batches[1]);
  const at::Tensor mean = (3 * before + weight.detach()) / 4;
  CHECK(largest_difference(trainer.mechanism<SWA>().averages()[0], mean) < 1e-6);
}

TEST_CASE("SWA: 16-bit weights have an FP32 average") {
  auto model = seeded([] { return torch::nn::Sequential(torch::nn::Linear(4, 8)); });
  Trainer trainer{model, MSELoss{}, SGD{.lr = 0.1}, Precision<BF16True>{}, SWA{}};
  at::Tensor sum = torch::zeros({8, 4}, at::kDouble);
  for (const auto& batch : data(20)) {
    trainer.step(Rows{batch.input, torch::ones({7, 8})});
    sum += model->parameters()[0].detach().to(at::kDouble);
  }
  const at::Tensor average = trainer.mechanism<SWA>().averages()[0];
  CHECK((average.scalar_type() == at::kFloat));
  CHECK(largest_difference(average, sum / 20) < 1e-6);
}

TEST_CASE("SWA: values that cannot work are errors, and so is a step that is recorded") {
  auto make = [](SWA swa) { return Trainer{net(), CrossEntropyLoss{}, swa}; };
  CHECK(contains(message_of<BadValue>([&] { make({.start_step = -1}); }), "start_step is -1"));
  auto trainer = make({});
  CHECK(contains(trainer.describe(), "SWA  {start_step=0, every_steps=1}"));
  trainer.get<SWA>().every_steps = 0;
  const auto batch = data(1)[0];
  CHECK(contains(message_of<BadValue>([&] { trainer.step(batch); }), "every_steps 0"));
  trainer.get<SWA>().every_steps = 1;
  for (int s = 0; s < 2; ++s) trainer.step(batch);  // in which the optimizer makes its state
  const ikebana::detail::RecordingScope recording;
  CHECK(contains(message_of<BadValue>([&] { trainer.step(batch); }), "SWA: the host decides"));
}

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

}  // namespace guarantees::swa
