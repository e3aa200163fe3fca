#include <ikebana/observe.hpp>
#include <ikebana/profiling.hpp>

#include "guarantees.hpp"

#include <algorithm>

namespace gpu {

namespace observe_parts {

const Observe<Throughput> throughput{.bound = 1e12, .window = 3};

/// Trains on the device while it is observed.
template <class... Policies>
auto observed(const Policies&... policies) {
  Net model = net(0.2);
  model->to(device());
  return Trainer{
      model,      adamw, Observe<Phases>{.warmup = 1}, throughput, Observe<EachUnit>{.warmup = 1},
      policies...};
}

/// Reads a number of the device in each forward, as one does who prints it.
struct ReadingImpl : torch::nn::Module {
  explicit ReadingImpl(bool reads_host) : reads(reads_host) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = last(x);
    if (reads) largest = y.abs().max().item<float>();
    return y;
  }
  bool reads = false;
  float largest = 0;
  torch::nn::Linear last = register_module("last", torch::nn::Linear(width, width));
};
TORCH_MODULE(Reading);

/// Returns the names of the advice on a training on the device.
std::vector<std::string> advice(bool reads) {
  torch::manual_seed(0);
  Reading model(reads);
  model->to(device());
  Trainer trainer{model, MSELoss{}, adamw, Observe<Phases>{.warmup = 1}};
  const std::vector<std::pair<at::Tensor, at::Tensor>> batches{
      {at::randn({32, width}).to(device()), at::randn({32, width}).to(device())}};
  std::vector<std::string> names;
  for (const Advice& one : profile_run(trainer, batches, {}, {.warmup = 1, .steps = 4}).advice)
    names.push_back(one.name);
  return names;
}

}  // namespace observe_parts
using namespace observe_parts;

TEST_CASE("observing changes no bit, and no step waits for the device") {
  const Deterministic deterministic;
  const auto batches = texts(4);
  auto same = [&](const auto&... policies) {
    auto trainer = observed(policies...);
    CHECK(same_bits(trained_on(device(), net(0.2), batches, adamw, policies...),
                    trained(trainer, batches)));
  };
  same();
  same(Checkpoint<Full>{}, Accumulate<2>{});
  same(Precision<BF16>{}, Checkpoint<Selective>{});
}

TEST_CASE("the phases and units of steps on a device arrive later, each once") {
  auto trainer = observed();
  auto& phases = trainer.mechanism<Observe<Phases>>();
  auto& units = trainer.mechanism<Observe<EachUnit>>();
  const auto batches = texts(6);
  trained(trainer, batches);
  const PhaseSummary first = phases.summary();
  CHECK(first.step.count == 5);
  for (const char* phase : {"forward", "backward", "optimizer", "between"})
    CHECK(first.share(phase) > 0);
  const UnitSummary summary = units.summary();
  CHECK(summary.steps == 5);
  REQUIRE(summary.units.size() == 4);
  double shares = 0;
  for (const UnitTimes& unit : summary.units) {
    CHECK(unit.forward > 0);
    CHECK(unit.backward > 0);
    CHECK(unit.flops > 0);
    shares += unit.share;
  }
  CHECK(shares == doctest::Approx(1));
  CHECK(summary.units[1].flops == summary.units[2].flops);
  trained(trainer, batches);
  CHECK(phases.summary().step.count == 11);
  CHECK(units.summary().steps == 11);
  units.reset(), phases.reset();
  CHECK(units.summary().steps == 0);
  CHECK(phases.summary().step.count == 0);
}

TEST_CASE("on a device no step has its own phases, and the rate is that of several steps") {
  auto trainer = observed();
  Report last;
  for (const Texts& batch : texts(6)) {
    last = trainer.step(batch);
    CHECK(last.phases.has_value() == on_cpu());
  }
  REQUIRE(last.throughput);
  CHECK(last.throughput->items_per_second() > 0);
  CHECK(last.throughput->flops > 0);
  CHECK(last.throughput->recomputed == 0);
  CHECK(measure_latency(trainer, texts(1)[0], {.warmup = 1, .iterations = 3}).min > 0);
}

TEST_CASE("profile_run names a number that the host reads of the device in each step") {
  auto has = [](const std::vector<std::string>& names) {
    return std::find(names.begin(), names.end(), "host_reads") != names.end();
  };
  CHECK(has(advice(true)) == !on_cpu());
  CHECK_FALSE(has(advice(false)));
}

}  // namespace gpu
