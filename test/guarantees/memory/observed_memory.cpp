// Tests what Observe<Memory> says of a step by phase and by unit, against an estimate of the same
// recipe and against allocations of known size; and that its fields are free when off.
#include <ikebana/estimate.hpp>

#include "../../../examples/models/gpt.hpp"
#include "test.hpp"

namespace guarantees::observed_memory {

using namespace ikebana;

const GPTConfig config{.layers = 3, .width = 64, .heads = 2, .context = 32};

/// Compares the second step's report with the estimate.
template <class... Policies>
void equals_the_estimate() {
  CAPTURE(ikebana::detail::type_name<std::tuple<Policies...>>());
  const Tokens batch = random_batch(config, 8, 32);
  auto maker = [&] { return GPT(config); };
  const Estimate measured = estimate<Trainer<GPT, Policies...>>(maker, batch);
  Trainer<GPT, Policies..., Observe<Memory>> trainer(maker(), Observe<Memory>{.by_unit = true});
  trainer.step(batch);
  const Report report = trainer.step(batch);
  REQUIRE(report.memory != nullptr);
  const MemoryReport& memory = *report.memory;
  REQUIRE(memory.units.size() == measured.units.size());
  for (std::size_t u = 0; u < memory.units.size(); ++u) {
    CAPTURE(memory.units[u].name);
    CHECK(memory.units[u].name == measured.units[u].name);
    CHECK(memory.units[u].activations == measured.units[u].activations);
    CHECK(memory.units[u].forward_peak > 0);
    CHECK(memory.units[u].backward_peak > 0);
  }
  CHECK(memory.peak == report.peak_bytes);
  CHECK(memory.peak == *std::max_element(memory.phase_peaks.begin(), memory.phase_peaks.end()));
  CHECK(memory.peak_phase == measured.peak_phase);
}

TEST_CASE("memory report: activations of each unit are those of an estimate, to the byte") {
  equals_the_estimate<AdamW>();
  equals_the_estimate<AdamW, Checkpoint<Full>>();
  equals_the_estimate<AdamW, Checkpoint<Selective>, Precision<BF16>>();
  equals_the_estimate<AdamW, Precision<BF16Weights>>();
  equals_the_estimate<SGD, Accumulate<2>, ClipGradNorm>();
}

TEST_CASE("memory report: an estimate of a recipe that observes is that of one that does not") {
  const Tokens batch = shapes(random_batch(config, 8, 32));
  auto maker = [] { return GPT(config); };
  const Estimate plain = estimate<Trainer<GPT, AdamW>>(maker, batch);
  const Estimate observed = estimate<Trainer<GPT, AdamW, Observe<Memory>>>(
      maker, batch, Observe<Memory>{.by_unit = true, .free_below = GiB(1000)});
  CHECK(observed.peak == plain.peak);
  CHECK(observed.between_steps == plain.between_steps);
  CHECK(observed.units[1].activations == plain.units[1].activations);
}

/// Adds 1, and takes memory for a moment, in forward and in backward.
struct Take : torch::autograd::Function<Take> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, at::Tensor x,
                            std::int64_t in_forward, std::int64_t in_backward) {
    context->saved_data["bytes"] = in_backward;
    at::empty({in_forward}, at::kByte);
    return x + 1;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
    at::empty({context->saved_data["bytes"].toInt()}, at::kByte);
    return {gradients[0], at::Tensor(), at::Tensor()};
  }
};
struct PartImpl : torch::nn::Module {
  std::int64_t in_forward = 0, in_backward = 0;
  torch::nn::Linear linear = register_module("linear", torch::nn::Linear(4, 4));
  at::Tensor forward(const at::Tensor& x) {
    return linear(Take::apply(x, in_forward, in_backward));  // a recompute ends at the linear layer
  }
};
TORCH_MODULE(Part);
struct ChainImpl : torch::nn::Module {
  using units = Units<Part>;
  Part a = register_module("a", Part()), b = register_module("b", Part()),
       c = register_module("c", Part());
  int throws_in = 0;
  template <class Run>
  Loss loss(Run& run, const at::Tensor& batch) {
    at::Tensor x = run(c, run(b, run(a, batch)));
    if (throws_in > 0 && --throws_in == 0) throw std::runtime_error("as asked");
    return {.sum = x.pow(2).sum(), .count = batch.size(0)};
  }
};
TORCH_MODULE(Chain);

template <class... Policies>
Report step_of(const std::function<void(ChainImpl&)>& set) {
  Chain model;
  set(*model);
  Trainer<Chain, SGD, Observe<Memory>, Policies...> trainer(model,
                                                            Observe<Memory>{.by_unit = true});
  return trainer.step(at::randn({8, 4}));
}

TEST_CASE("memory report: the peak is in the forward or backward that takes the memory") {
  constexpr std::int64_t bytes = 32 << 20;
  Report report = step_of([](ChainImpl& m) { m.b->in_forward = bytes; });
  CHECK(report.memory->peak_phase == Phase::Forward);
  CHECK(report.memory->units[report.memory->peak_unit].name == "b");
  CHECK(report.memory->units[2].forward_peak == report.peak_bytes);
  CHECK(report.memory->units[1].forward_peak < bytes);
  CHECK(report.memory->peak_of(Phase::Backward) < report.memory->peak_of(Phase::Forward));

  report = step_of([](ChainImpl& m) {
    m.a->in_forward = m.b->in_backward = bytes / 2, m.c->in_backward = bytes;
  });
  CHECK(report.memory->peak_phase == Phase::Backward);
  CHECK(report.memory->units[report.memory->peak_unit].name == "c");
  CHECK(report.memory->units[3].backward_peak == report.peak_bytes);
  CHECK(report.memory->units[2].backward_peak > bytes / 2);
  CHECK(report.memory->units[1].backward_peak < bytes / 2);
  CHECK(report.memory->units[1].forward_peak > bytes / 2);
  const std::string table = report.memory->table();
  CHECK(test::contains(table, "in backward of c"));
  CHECK(test::contains(table, "(no unit's)"));
}

/// The model of ChainImpl without units, and two plain modules, of which one is wide.
struct PlainImpl : torch::nn::Module {
  Part a = register_module("a", Part());
  torch::nn::Sequential body =
      register_module("body", torch::nn::Sequential(torch::nn::Linear(4, 64), torch::nn::GELU()));
  torch::nn::Linear wide = register_module("wide", torch::nn::Linear(64, wide_columns));
  int throws_in = 0;
  static constexpr std::int64_t wide_columns = 1 << 17;
  template <class Run>
  Loss loss(Run&, const at::Tensor& batch) {
    const at::Tensor y = wide(body->forward(a->forward(batch)));
    if (throws_in > 0 && --throws_in == 0) throw std::runtime_error("as asked");
    return {.sum = y.sum(), .count = batch.size(0)};
  }
};
TORCH_MODULE(Plain);
struct WithUnitsImpl : PlainImpl {
  using units = Units<Part>;
  template <class Run>
  Loss loss(Run& run, const at::Tensor& batch) {
    return {.sum = wide(body->forward(run(a, batch))).sum(), .count = batch.size(0)};
  }
};

TEST_CASE("memory report: a model without units has a row for each of its modules on a CPU") {
  Plain model;
  Trainer<Plain, SGD, Observe<Memory>> trainer(model, Observe<Memory>{.by_phase = true});
  const at::Tensor batch = at::randn({8, 4});
  CHECK(trainer.step(batch).memory->units.empty());
  trainer.get<Observe<Memory>>().by_unit = true;
  const Report report = trainer.step(batch);
  const MemoryReport& memory = *report.memory;
  std::map<std::string, UnitPeak> modules;
  std::vector<std::string> names;
  for (const UnitPeak& unit : memory.units) modules[unit.name] = unit, names.push_back(unit.name);
  CHECK(names == std::vector<std::string>{"", "a", "a.linear", "body", "body.0", "body.1", "wide"});
  constexpr std::int64_t row = 8 * sizeof(float), wide = PlainImpl::wide_columns * row;
  CHECK(modules["a.linear"].activations == 4 * row);
  CHECK(modules["body.0"].activations == 64 * row);
  CHECK(modules["body"].activations == 64 * row);  // GELU, which has no parameter
  CHECK(modules["body.1"].activations == 0);
  CHECK(modules["wide"].activations == 0);    // a sum does not need what it is given
  CHECK(modules[""].activations >= 4 * row);  // `x + 1` of a function, before any module
  CHECK(modules["wide"].forward_peak >= memory.before + wide);
  CHECK(modules["body.0"].forward_peak < memory.before + wide);
  CHECK(memory.units[memory.peak_unit].name == "wide");
  CHECK(memory.peak_phase == Phase::Backward);  // the weight's gradient, and the transposed one
  CHECK(modules["wide"].backward_peak == report.peak_bytes);
  CHECK(modules["body.0"].backward_peak < report.peak_bytes);

  model->throws_in = 1;
  CHECK_THROWS_AS(trainer.step(batch), std::runtime_error);
  CHECK(bridge::OpenOperatorScopeV1<bridge::AllOperators>::innermost() == nullptr);
  CHECK(trainer.step(batch).memory->units[4].activations == 64 * row);
}

TEST_CASE("memory report: modules leave the bytes that the same model leaves with units") {
  auto left = []<class Impl>(std::type_identity<Impl>) {
    torch::manual_seed(0);
    Trainer<torch::nn::ModuleHolder<Impl>, SGD, Observe<Memory>, Accumulate<2>> trainer(
        torch::nn::ModuleHolder<Impl>(), Observe<Memory>{.by_unit = true});
    std::int64_t bytes = 0;
    for (const UnitPeak& unit : trainer.step(at::randn({8, 4})).memory->units)
      bytes += unit.activations;
    return std::pair{bytes, trainer.state()};
  };
  const auto [modules, state] = left(std::type_identity<PlainImpl>());
  const auto [units, same] = left(std::type_identity<WithUnitsImpl>());
  CHECK((modules == units && modules > 0));
  CHECK(test::same_state(state, same));
}

TEST_CASE("memory report: a recompute is its unit's backward") {
  constexpr std::int64_t bytes = 32 << 20;
  const Report report = step_of<Checkpoint<Full>>([](ChainImpl& m) { m.b->in_forward = bytes; });
  CHECK(report.memory->units[2].backward_peak > bytes);
  CHECK(report.memory->units[1].backward_peak < bytes);
}

TEST_CASE("memory report: the fields change no bit, and off there is no report and no listener") {
  auto train = [](const Observe<Memory>& policy) {
    torch::manual_seed(1);
    Trainer<GPT, AdamW, Observe<Memory>, Precision<BF16>> trainer(GPT(config), policy);
    for (int i = 0; i < 3; ++i) trainer.step(random_batch(config, 4, 32));
    return trainer.state();
  };
  const auto plain = train({});
  CHECK(test::same_state(plain, train({.by_phase = true})));
  CHECK(test::same_state(plain, train({.by_unit = true, .free_below = 1})));

  auto& allocator = bridge::CountingAllocatorV2::install();
  auto listeners = [&] {
    int count = 0;
    allocator.tell([&](auto&) { ++count; });
    return count;
  };
  Chain model;
  Trainer<Chain, SGD, Observe<Memory>> trainer(model);
  std::vector<int> heard;
  model->a->linear->weight.register_hook([&](const at::Tensor&) { heard.push_back(listeners()); });
  CHECK(trainer.step(at::randn({8, 4})).memory == nullptr);
  trainer.get<Observe<Memory>>().by_phase = true;
  CHECK(trainer.step(at::randn({8, 4})).memory->units.empty());
  trainer.get<Observe<Memory>>().by_unit = true;
  CHECK(trainer.step(at::randn({8, 4})).memory->units.size() == 4);
  trainer.get<Observe<Memory>>() = {};
  CHECK(trainer.step(at::randn({8, 4})).memory == nullptr);
  CHECK(heard == std::vector<int>{0, 0, 1, 0});
}

TEST_CASE("memory report: after a step that throws nothing listens, and the next one reports") {
  Chain model;
  Trainer<Chain, SGD, Observe<Memory>> trainer(model, Observe<Memory>{.by_unit = true});
  const at::Tensor batch = at::randn({8, 4});
  trainer.step(batch);
  const auto expected = trainer.step(batch).memory->units[1].activations;
  model->throws_in = 1;
  CHECK_THROWS_AS(trainer.step(batch), std::runtime_error);
  bool any = false;
  bridge::CountingAllocatorV2::install().tell([&](auto&) { any = true; });
  CHECK_FALSE(any);
  CHECK(bridge::place_source == nullptr);
  CHECK(trainer.step(batch).memory->units[1].activations == expected);
}

TEST_CASE("memory report: where less is free than wanted, it is cleaned up before the step") {
  const std::int64_t total = *bridge::memory_facts(at::kCPU).total;
  int calls = 0;
  Chain model;
  Trainer<Chain, SGD, Observe<Memory>> trainer(
      model, Observe<Memory>{.free_below = 1, .clean_up = [&] { ++calls; }});
  CHECK_FALSE(trainer.step(at::randn({8, 4})).memory->cleaned_up);
  CHECK(calls == 0);
  auto& policy = trainer.get<Observe<Memory>>();
  policy.free_below = total;  // never free
  const Report report = trainer.step(at::randn({8, 4}));
  CHECK(calls == 1);
  CHECK(report.memory->cleaned_up.value() >= 0);
  CHECK(report.memory->facts.total == total);
  policy.clean_up = {};
  CHECK(trainer.step(at::randn({8, 4})).memory->cleaned_up);
  policy.clean_up = [] { throw std::runtime_error("no cache to drop"); };
  const at::Tensor batch = at::randn({8, 4});
  const auto before = trainer.state();
  CHECK(test::contains(test::message_of([&] { trainer.step(batch); }), "no cache to drop"));
  CHECK(test::same_state(before, trainer.state()));
}

TEST_CASE("memory report: values that cannot be are errors") {
  auto message = [](const Observe<Memory>& policy) {
    return test::message_of<BadValue>(
        [&] { Trainer<Chain, SGD, Observe<Memory>> trainer(Chain(), policy); });
  };
  CHECK(test::contains(message({.free_below = -1}), "free_below is -1 bytes"));
  CHECK(test::contains(message({.clean_up = [] {}}), "clean_up is never called"));
  CHECK(test::contains(message({.free_below = std::int64_t(1) << 60}), "would clean up"));
  CHECK(message({.by_unit = true}).empty());
}

}  // namespace guarantees::observed_memory
