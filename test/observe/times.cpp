// Tests Observe<Phases>, Observe<Throughput>, Observe<EachUnit> and measure_latency: where time is
// spent, who is told of it, and that measuring changes no bit.
#include <ikebana.hpp>
#include <ikebana/observe.hpp>
#include <ranges>
#include <thread>

#include "test.hpp"
#include "trainer/fit_net.hpp"

namespace test::times {

using namespace ikebana;
using namespace std::chrono_literals;
using Batch = std::pair<at::Tensor, at::Tensor>;

constexpr auto forward_time = 4ms, backward_time = 7ms;

/// Takes a stated time in backward.
struct SleepInBackward : torch::autograd::Function<SleepInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    std::this_thread::sleep_for(backward_time);
    return gradients;
  }
};

struct InnerImpl : torch::nn::Module {
  torch::nn::Linear layer{nullptr};
  InnerImpl() { layer = register_module("layer", torch::nn::Linear(8, 8)); }
  at::Tensor forward(const at::Tensor& x) { return torch::dropout(layer(x), 0.1, is_training()); }
};
TORCH_MODULE(Inner);

struct BlockImpl : torch::nn::Module {
  Inner inner;
  torch::nn::Linear layer{nullptr};
  bool sleeps;
  explicit BlockImpl(bool does_sleep) : sleeps(does_sleep) {
    register_module("inner", inner);
    layer = register_module("layer", torch::nn::Linear(8, 8));
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    if (sleeps) std::this_thread::sleep_for(forward_time);
    const at::Tensor y = torch::relu(layer(run(inner, x)));
    return sleeps ? SleepInBackward::apply(y) : y;
  }
};
TORCH_MODULE(Block);

/// Two blocks, of which the second takes its time if `sleeps`. Counts forwards that an operator
/// scope sees.
struct NetImpl : torch::nn::Module {
  using units = Units<Block, Inner>;
  int seen = 0;
  Block first{false}, second;
  torch::nn::Linear head{nullptr};
  explicit NetImpl(bool sleeps = false) : second(sleeps) {
    register_module("first", first), register_module("second", second);
    head = register_module("head", torch::nn::Linear(8, 1));
  }
  template <class Run>
  Loss loss(Run& run, const Batch& batch) {
    seen += bridge::OpenOperatorScopeV1<bridge::AllOperators>::innermost() != nullptr;
    const at::Tensor found = head(run(second, run(first, batch.first)));
    return {torch::mse_loss(found, batch.second, at::Reduction::Sum), batch.first.size(0), found};
  }
};
TORCH_MODULE(Net);

Batch batch_of(std::int64_t rows) {
  const at::Tensor x = at::linspace(-1, 1, rows * 8).reshape({rows, 8});
  return {x, x.sum(1, true)};
}
const Batch batch = batch_of(16);

template <class... Policies>
auto trainer_of(bool sleeps, const Policies&... policies) {
  torch::manual_seed(3);
  return Trainer{Net(sleeps), AdamW{.lr = 1e-2}, policies...};
}

double seconds(std::chrono::milliseconds time) { return 1e-3 * static_cast<double>(time.count()); }

/// Returns the mean seconds of a phase, and 0 if no time was spent in it.
double mean(const PhaseSummary& summary, const std::string& name) {
  for (const PhaseTimes& phase : summary.phases)
    if (phase.name == name) return phase.seconds.mean;
  return 0;
}

TEST_CASE("times: statistics are numpy's") {
  const std::vector<double> times{0.3, 0.1, 0.4, 0.15, 0.92, 0.65, 0.35};
  const TimeStatistics found = time_statistics(times);
  // numpy: x.mean(), x.std(ddof=1), numpy.percentile(x, [50, 95, 99])
  CHECK(found.count == 7);
  CHECK(found.mean == doctest::Approx(0.41).epsilon(1e-12));
  CHECK(found.std == doctest::Approx(0.28786570943178813).epsilon(1e-12));
  CHECK(found.median == doctest::Approx(0.35).epsilon(1e-12));
  CHECK(found.p95 == doctest::Approx(0.839).epsilon(1e-12));
  CHECK(found.p99 == doctest::Approx(0.9038).epsilon(1e-12));
  CHECK(found.min == 0.1);
  CHECK(found.max == 0.92);
  CHECK(time_statistics({}).count == 0);
  CHECK_THROWS_AS(time_statistics(std::vector{0.1, -1.0}), BadValue);
}

TEST_CASE("times: a call's latency, and that of predict") {
  int calls = 0;
  const TimeStatistics found = measure_latency(
      [&] {
        ++calls;
        std::this_thread::sleep_for(1ms);
      },
      {.warmup = 2, .iterations = 5});
  CHECK(calls == 7);
  CHECK(found.count == 5);
  CHECK(found.min >= 1e-3);
  CHECK(found.p99 <= found.max);
  auto trainer = trainer_of(true);
  CHECK(measure_latency(trainer, batch, {.warmup = 0, .iterations = 2}).min >=
        seconds(forward_time));
  CHECK_THROWS_AS(measure_latency([] {}, {.iterations = 0}), BadValue);
}

TEST_CASE("times: each phase has the time that is spent in it, and all of them are the whole") {
  auto trainer = trainer_of(true, Observe<Phases>{.warmup = 1});
  struct Slow {
    std::int64_t size() const { return 8; }
    Batch get(std::int64_t) const {
      std::this_thread::sleep_for(5ms);
      return {at::ones({8}), at::ones({1})};
    }
  };
  DataLoader loader{Slow(), {.batch_size = 2}};
  for (auto& one : loader) {
    const auto begin = std::chrono::steady_clock::now();
    const Report report = trainer.step(one);
    const std::chrono::duration<double> step = std::chrono::steady_clock::now() - begin;
    std::this_thread::sleep_for(3ms);
    REQUIRE(report.phases);
    const PhaseSeconds& p = *report.phases;
    CHECK(p.forward + p.backward + p.optimizer + p.other <= step.count());
  }
  const PhaseSummary found = trainer.mechanism<Observe<Phases>>().summary();
  CHECK(found.step.count == 3);
  CHECK(found.left_out == 1);
  CHECK(mean(found, "data") >= 10e-3);
  CHECK(mean(found, "forward") >= seconds(forward_time));
  CHECK(mean(found, "backward") >= seconds(backward_time));
  CHECK(mean(found, "between") >= 3e-3);
  double shares = 0, means = 0;
  for (const PhaseTimes& phase : found.phases) shares += phase.share, means += phase.seconds.mean;
  CHECK(shares == doctest::Approx(1));
  CHECK(means == doctest::Approx(found.step.mean));
  for (const char* absent : {"gather", "reduce", "offload", "recompute"})
    CHECK(found.share(absent) == 0);
  CHECK(contains(found.table(), "time of 3 steps in ms, without the first 1"));
  CHECK(contains(found.csv(), "phase,share,count,mean,std,min,median,p95,p99,max\ndata,"));
}

TEST_CASE("times: what gathers, reduces, offloads and recomputes has phases of its own") {
  auto found = [](const auto&... policies) {
    auto trainer = trainer_of(true, Observe<Phases>{.warmup = 0}, policies...);
    for (int i = 0; i < 2; ++i) trainer.step(batch);
    return trainer.template mechanism<Observe<Phases>>().summary();
  };
  const PhaseSummary recomputed = found(Checkpoint<Full>{});
  CHECK(mean(recomputed, "recompute") >= seconds(forward_time));
  CHECK(mean(recomputed, "backward") >= seconds(backward_time));
  CHECK(recomputed.share("gather") + recomputed.share("offload") == 0);
  const PhaseSummary gathered = found(Precision<BF16Weights>{});
  CHECK(gathered.share("gather") > 0);
  CHECK(gathered.share("reduce") > 0);
  CHECK(gathered.share("offload") == 0);
  const PhaseSummary offloaded = found(Offload<CPU, Activations>{.min_bytes = 0});
  CHECK(offloaded.share("offload") > 0);
  CHECK(offloaded.share("gather") + offloaded.share("recompute") == 0);
}

TEST_CASE("times: a step that throws is not counted, and the last steps are kept") {
  auto trainer = trainer_of(false, Observe<Phases>{.warmup = 2, .keep = 3});
  auto& phases = trainer.mechanism<Observe<Phases>>();
  const Batch wrong{at::ones({2, 9}), at::ones({2, 1})};
  for (int i = 0; i < 4; ++i) {
    trainer.step(batch);
    CHECK_THROWS(trainer.step(wrong));
  }
  CHECK(phases.summary().step.count == 2);
  CHECK(mean(phases.summary(), "between") == 0);  // each step follows one that threw
  for (int i = 0; i < 4; ++i) trainer.step(batch);
  CHECK(phases.summary().step.count == 3);
  CHECK(mean(phases.summary(), "between") > 0);
  phases.reset();
  CHECK(phases.summary().step.count == 0);
  CHECK(phases.summary().phases.empty());
  CHECK_THROWS_AS(trainer_of(false, Observe<Phases>{.keep = 0}), BadValue);
  CHECK_THROWS_AS(trainer_of(false, Observe<Phases>{.warmup = -1}), BadValue);
}

TEST_CASE("times: throughput counts the operations of each shape once, and recomputes apart") {
  auto trainer = trainer_of(false, Observe<Throughput>{.bound = 1e9}, Checkpoint<Full>{});
  auto plain = trainer_of(false, Observe<Throughput>{.bound = 1e9});
  // Four layers of 8 x 8 and a head of 8 x 1; the first needs no gradient of its input.
  auto forward = [](double rows) { return 2 * rows * (4 * 64 + 8); };
  auto step = [&](double rows) { return 3 * forward(rows) - 2 * rows * 64; };
  for (const std::int64_t rows : {16, 8, 16, 4}) {
    const auto number = static_cast<double>(rows);
    const StepThroughput found = *trainer.step(batch_of(rows)).throughput;
    CHECK(found.flops == step(number));
    CHECK(found.recomputed == 2 * number * 6 * 64);  // an inner unit alone, and in the outer one
    CHECK(found.items.value() == number);
    CHECK(found.items_per_second() == number / found.seconds);
    CHECK(found.share_of_bound() == found.flops / found.seconds / 1e9);
    CHECK(plain.step(batch_of(rows)).throughput->recomputed == 0);
  }
  CHECK(plain.model()->seen == 3);  // the shapes of four steps
  auto accumulated = trainer_of(false, Observe<Throughput>{.bound = 1e9}, Accumulate<2>{});
  CHECK(accumulated.step(batch).throughput->flops == step(16));
  CHECK_THROWS_AS(trainer_of(false, Observe<Throughput>{.bound = 0.0}), BadValue);
  CHECK_THROWS_AS(trainer_of(false, Observe<Throughput>{.window = 0}), BadValue);
  CHECK(matmul_bound() > 1e6);
  CHECK(matmul_bound() == matmul_bound());
}

TEST_CASE("times: a loop by fit says what it waited for, and logs have the columns") {
  auto trainer = trainer_of(false, Observe<Phases>{.warmup = 0}, Observe<Throughput>{.bound = 1e9});
  const std::vector<Batch> batches(3, batch);
  auto slow = batches | std::views::transform([](const Batch& one) {
                std::this_thread::sleep_for(3ms);
                return one;
              });
  std::vector<std::map<std::string, double>> rows;
  auto keep = [&](const Report& report) {
    const LogRow row = columns_of(report);
    rows.emplace_back(row.begin(), row.end());
  };
  trainer.fit(slow, {.on_step = keep, .progress = false});
  REQUIRE(rows.size() == 3);
  CHECK(rows[2].at("seconds_data") >= 3e-3);
  CHECK(rows[2].at("seconds_forward") > 0);
  CHECK(rows[2].at("flops_per_second") / 1e9 == rows[2].at("share_of_bound"));
  CHECK(rows[2].at("items_per_second") > 0);
}

TEST_CASE("times: each unit has its own time, operators, activations and parameters") {
  auto trainer = trainer_of(true, Observe<EachUnit>{.warmup = 1});
  const FlopCount all = count_flops([&] { trainer.step(batch); });
  trainer.model()->seen = 0;
  for (int i = 0; i < 2; ++i) trainer.step(batch);
  CHECK(trainer.model()->seen == 0);  // only the first step counts operators
  const UnitSummary found = trainer.mechanism<Observe<EachUnit>>().summary();
  CHECK(found.steps == 2);
  REQUIRE(found.units.size() == 5);
  std::map<std::string, UnitTimes> units;
  std::int64_t flops = 0;
  double shares = 0;
  for (const UnitTimes& unit : found.units)
    units[unit.name] = unit, flops += unit.flops, shares += unit.share;
  CHECK(flops == all.total);
  CHECK(shares == doctest::Approx(1));
  CHECK(units["second"].forward >= seconds(forward_time));
  CHECK(units["second"].backward >= seconds(backward_time));
  CHECK(units["second.inner"].seconds() < units["second"].seconds());
  CHECK(found.units[units["second.inner"].outer].name == "second");
  CHECK(units["first"].outer == 0);
  CHECK(units["second"].flops == 3 * 2 * 16 * 64);
  CHECK(units["first.inner"].flops == 2 * 2 * 16 * 64);
  CHECK(units["first"].parameters == 8 * 8 + 8);
  CHECK(units[""].parameters == 8 + 1);
  // relu's result, and its clone; the layer's own result is freed.
  CHECK(units["second"].activations == 2 * 16 * 8 * 4);
  CHECK(units["first"].activations == 16 * 8 * 4);
  for (const auto& [name, unit] : units) CHECK(unit.operators > 0);
  CHECK(contains(found.tree(), "\n    second "));
  CHECK(contains(found.tree(), "\n      second.inner "));
  CHECK(contains(found.table(1), "\n  second "));
  CHECK_FALSE(contains(found.table(1), "inner"));
  CHECK(contains(found.flame_graph(), "model;second;backward "));
  CHECK(contains(found.csv(), "\nsecond.inner,second,"));
  CHECK_THROWS_AS(trainer_of(false, Observe<EachUnit>{.warmup = 0}), BadValue);
}

namespace nn = torch::nn;

/// A model without units.
struct ModelImpl : nn::Module {
  nn::Sequential body{nn::Linear(8, 32), nn::ReLU(), nn::Linear(32, 8)};
  nn::Linear head{8, 1};
  ModelImpl() { register_module("body", body), register_module("head", head); }
  at::Tensor forward(const at::Tensor& x) { return head(SleepInBackward::apply(body->forward(x))); }
  template <class Run>
  Loss loss(Run&, const Batch& one) {
    return {torch::mse_loss(forward(one.first), one.second, at::Reduction::Sum), one.first.size(0)};
  }
};

TEST_CASE("times: a model without units is measured module by module") {
  torch::manual_seed(2);
  Trainer trainer{std::make_shared<ModelImpl>(), SGD{.lr = 1e-2}, Observe<EachUnit>{.warmup = 1}};
  for (int i = 0; i < 3; ++i) trainer.step(batch);
  const UnitSummary found = trainer.mechanism<Observe<EachUnit>>().summary();
  std::map<std::string, UnitTimes> modules;
  double shares = 0;
  for (const UnitTimes& one : found.units) modules[one.name] = one, shares += one.share;
  CHECK(found.steps == 2);
  CHECK(shares == doctest::Approx(1));
  CHECK(modules["body.0"].flops == 2 * 2 * 16 * 8 * 32);
  CHECK(modules["body.2"].flops == 3 * 2 * 16 * 8 * 32);
  CHECK(modules["head"].flops == 3 * 2 * 16 * 8);
  CHECK(modules["body.2"].parameters == 32 * 8 + 8);
  CHECK(modules["body.1"].operators == 0);  // its operator has no parameter
  CHECK(modules["body"].operators > 0);
  CHECK(modules["body"].activations >= 16 * 32 * 4);
  CHECK(found.units[modules["body.2"].outer].name == "body");
  for (const char* name : {"body.0", "body.2", "head"}) {
    CHECK(modules[name].forward > 0);
    CHECK(modules[name].backward > 0);
  }
  CHECK(modules[""].backward >= seconds(backward_time));  // no operator ran in that time
  // Parameters that are gathered, and cast, are known as well.
  Trainer half{std::make_shared<ModelImpl>(), SGD{.lr = 1e-2}, Precision<BF16Weights>{},
               Observe<EachUnit>{.warmup = 1}};
  half.step(batch);
  for (const UnitTimes& one : half.mechanism<Observe<EachUnit>>().summary().units)
    CHECK_MESSAGE(one.flops == modules[one.name].flops, one.name);
}

TEST_CASE("times: a step that ran out of memory before it fitted counts no operators") {
  Trainer trainer{room_net(5), SGD{.lr = 0.05}, Accumulate<Fit<>>{.max = 64},
                  Observe<Throughput>{.bound = 1e9}, Observe<EachUnit>{.warmup = 1}};
  auto flops = [&] {
    std::int64_t all = 0;
    for (const UnitTimes& one : trainer.mechanism<Observe<EachUnit>>().summary().units)
      all += one.flops;
    return all;
  };
  CHECK(trainer.step(items(16)).undone == 2);
  CHECK(flops() == 0);
  const Report report = trainer.step(items(16));
  CHECK(report.undone == 0);
  CHECK(flops() > 0);
  CHECK(static_cast<double>(flops()) == report.throughput->flops);
}

TEST_CASE("times: measuring changes no bit, under any policy of the step") {
  auto all_bits_with = [](const auto&... policies) {
    auto plain = trainer_of(false, policies...);
    const Observe<Throughput> throughput{.bound = 1e9};
    auto observed =
        trainer_of(false, Observe<Phases>{}, throughput, Observe<EachUnit>{}, policies...);
    torch::manual_seed(5);
    for (int i = 0; i < 4; ++i) plain.step(batch_of(8 + i));
    torch::manual_seed(5);
    for (int i = 0; i < 4; ++i) observed.step(batch_of(8 + i));
    CHECK(same_state(observed.state(), plain.state()));
  };
  all_bits_with();
  all_bits_with(Checkpoint<Selective>{}, Precision<BF16>{}, Accumulate<2>{});
  all_bits_with(Checkpoint<Every<2>>{}, Precision<BF16Weights>{});
  all_bits_with(Offload<CPU, Activations, Parameters>{.min_bytes = 0}, ClipGradNorm{});
}

}  // namespace test::times
