// Checks the advice of profile_run: on programs that are slow for one reason each, and on one that
// is not.
#include <ikebana.hpp>
#include <ikebana/capture.hpp>
#include <ikebana/observe.hpp>
#include <ikebana/profiling.hpp>
#include <ikebana/profiling/machine_facts.hpp>
#include <set>
#include <thread>

#include "test.hpp"

namespace {

using namespace ikebana;
using Batch = std::pair<at::Tensor, at::Tensor>;

/// A layer around a function, and a linear one after it.
struct AfterImpl : torch::nn::Module {
  using F = std::function<at::Tensor(const at::Tensor&)>;
  AfterImpl(F function, std::int64_t width)
      : f(std::move(function)), last(register_module("last", torch::nn::Linear(width, 8))) {}
  at::Tensor forward(const at::Tensor& x) { return last(f(x)); }
  F f;
  torch::nn::Linear last;
};
TORCH_MODULE(After);

/// Two layers, each of which is a unit.
struct TwoLayersImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  TwoLayersImpl()
      : first(register_module("first", torch::nn::Linear(64, 32))),
        second(register_module("second", torch::nn::Linear(32, 8))) {}
  template <class Run>
  Loss loss(Run& run, const Batch& batch) {
    const at::Tensor x = run(second, at::relu(run(first, batch.first)));
    return {x.square().sum(), x.size(0)};
  }
  torch::nn::Linear first, second;
};
TORCH_MODULE(TwoLayers);

/// Samples of random numbers, each of which takes some time to read.
struct Samples {
  std::int64_t width = 64;
  std::chrono::microseconds delay{0};
  std::int64_t size() const { return 128; }
  std::pair<at::Tensor, at::Tensor> get(std::int64_t index, SampleRng& rng) const {
    if (delay.count() > 0) std::this_thread::sleep_for(delay);
    return {at::randn({width}, rng.generator()), at::scalar_tensor(index % 8, at::kLong)};
  }
};

template <class Loader>
RunProfile profiled(AfterImpl::F f, std::int64_t width, Loader&& loader,
                    ProfileRunOptions options = {}) {
  torch::manual_seed(0);
  Trainer trainer{After(std::move(f), width), CrossEntropyLoss{}, SGD{.lr = 1e-3},
                  Observe<Phases>{}, Observe<EachUnit>{}};
  options.warmup = 2, options.steps = 10;
  return profile_run(trainer, loader, {}, options);
}

const Advice* find(const RunProfile& profile, const std::string& name) {
  for (const Advice& advice : profile.advice)
    if (advice.name == name) return &advice;
  return nullptr;
}

/// Returns the names of the advice that does not depend on the machine, on how the tests were
/// compiled, or on other programs that run beside them.
std::set<std::string> names(const RunProfile& profile) {
  std::set<std::string> found;
  for (const Advice& advice : profile.advice) found.insert(advice.name);
  for (const char* name : {"debug_build", "threads", "waiting_policy", "precision", "vector_code"})
    found.erase(name);
  return found;
}

auto same(const at::Tensor& x) { return x; }

}  // namespace

TEST_CASE("profile_run: a training that waits for its loader is told how many workers it needs") {
  using namespace std::chrono_literals;
  DataLoader loader{Samples{.width = 64, .delay = 5ms}, DataLoaderOptions{.batch_size = 4}};
  const RunProfile profile = profiled(same, 64, loader, {.tries_advice = true});
  CHECK(profile.bound_by == "data");
  CHECK(profile.share_of_data() > 0.3);
  const Advice* data = find(profile, "data");
  REQUIRE(data != nullptr);
  CHECK(data->change.find("num_workers 0 -> ") == 0);
  CHECK(data->value.value_or(0) >= 1);
  REQUIRE(data->measured_gain.has_value());
  if (*data->value > 1) CHECK(*data->measured_gain > 0.1);
  CHECK(loader.position() == BatchPosition{0, 0});
}

TEST_CASE(
    "profile_run: short epochs that wait for their first batch are told to keep the workers") {
  using namespace std::chrono_literals;
  auto options = [](bool persistent) {
    DataLoaderOptions o{.batch_size = 32, .num_workers = 3};  // an epoch has four batches
    o.persistent_workers = persistent;
    return o;
  };
  auto busy = [](const at::Tensor& x) {  // longer than it takes workers to make the next epoch's
    std::this_thread::sleep_for(40ms);
    return x;
  };
  const Samples samples{.width = 64, .delay = 1ms};
  DataLoader ends(samples, options(false));
  const RunProfile profile = profiled(busy, 64, ends, {.tries_advice = true});
  CHECK(names(profile).count("data") == 0);
  const Advice* stay = find(profile, "persistent_workers");
  REQUIRE(stay != nullptr);
  CHECK(stay->expected_gain.value_or(0) > 0.1);
  CHECK(stay->measured_gain.has_value());
  DataLoader stays(samples, options(true));
  CHECK(find(profiled(busy, 64, stays), "persistent_workers") == nullptr);
}

TEST_CASE("profile_run: operators are known to be their unit's, in forward and in backward") {
  std::vector<Batch> batches{{at::randn({8, 64}), at::zeros({8}, at::kLong)}};
  torch::manual_seed(0);
  Trainer trainer{TwoLayers(), SGD{.lr = 1e-3}, Observe<Phases>{}, Observe<EachUnit>{}};
  const RunProfile profile = profile_run(trainer, batches, {}, {.warmup = 0, .steps = 2});
  std::map<std::string, std::int64_t> products;
  for (const ProfileEvent& event : profile.profile.events)
    if (event.name == "aten::mm" || event.name == "aten::addmm") ++products[event.unit];
  // In each of three steps: the first layer's input needs no gradient.
  CHECK(products == std::map<std::string, std::int64_t>{{"first", 6}, {"second", 9}});
}

TEST_CASE("profile_run: the denormals of a layer are counted, and flushing them is tried") {
  const ikebana::detail::TrainingFacts facts = [] {
    ikebana::detail::TrainingFacts f;
    ikebana::detail::measure_machine(f, at::kCPU);
    return f;
  }();
  DataLoader loader{Samples{.width = 256}, DataLoaderOptions{.batch_size = 32}};
  const RunProfile profile =
      profiled([](const at::Tensor& x) { return x * 1e-39; }, 256, loader, {.tries_advice = true});
  if (facts.denormal_seconds < 1e-9) return;  // this processor computes them as fast as others
  const Advice* denormals = find(profile, "denormals");
  REQUIRE(denormals != nullptr);
  CHECK(denormals->measured_gain.value_or(0) > 0.2);  // most of its time
  CHECK_FALSE(conditions().flushes_denormals);
}

TEST_CASE("profile_run: many small operators, and many copies, are named") {
  DataLoader loader{Samples{.width = 64}, DataLoaderOptions{.batch_size = 8}};
  auto small = [](at::Tensor x) {
    for (int i = 0; i < 400; ++i) x = x + 1e-3;
    return x;
  };
  const RunProfile calls = profiled(small, 64, loader);
  CAPTURE(calls.roofline.table());
  CHECK(names(calls).count("small_operators") == 1);
  auto copies = [](at::Tensor x) {
    at::Tensor large = x.unsqueeze(1).expand({x.size(0), 2048, x.size(1)}).contiguous();
    for (int i = 0; i < 4; ++i) large = large.transpose(1, 2).contiguous();
    return large.select(1, 0).narrow(1, 0, 64);
  };
  const RunProfile profile = profiled(copies, 64, loader);
  CHECK(names(profile).count("copies") == 1);
}

TEST_CASE("profile_run: a healthy training gets no advice, and every measurement") {
  std::vector<Batch> batches;
  torch::manual_seed(0);
  for (int i = 0; i < 3; ++i)
    batches.emplace_back(at::randn({512, 1024}), at::randint(8, {512}, at::kLong));
  auto wide = [weight = at::randn({1024, 1024}) / 32](at::Tensor x) {
    for (int i = 0; i < 3; ++i) x = x.mm(weight).relu();
    return x;
  };
  const RunProfile profile = profiled(wide, 1024, batches);
  CHECK(names(profile) == std::set<std::string>());
  CHECK(profile.bound_by == "matrix products");
  CHECK(profile.step_seconds.size() == 10);
  CHECK(profile.profile.steps == 3);
  CHECK(profile.items_per_second > 0);
  CHECK(profile.phases.share("forward") > 0);
  CHECK(profile.units.units.size() > 1);
  CHECK_FALSE(profile.operators.empty());
  CHECK_FALSE(profile.roofline.operators.empty());
}

TEST_CASE("profile_run: trainer and loader are afterwards what they were, also if a step throws") {
  torch::manual_seed(0);
  int calls = 0;
  auto dropped = [&calls](const at::Tensor& x) {
    if (++calls == 20) throw std::runtime_error("the 20th call");
    return at::dropout(x, 0.5, true);
  };
  DataLoader loader{Samples{}, DataLoaderOptions{.batch_size = 8, .shuffle = true}};
  Trainer trainer{After(dropped, 64), CrossEntropyLoss{}, SGD{.lr = 1e-3, .momentum = 0.9},
                  Observe<Phases>{}, Observe<EachUnit>{}};
  trainer.step(*loader.begin());
  const StateDict before = trainer.state();
  const BatchPosition position = loader.position();
  auto is_unchanged = [&] {
    const StateDict after = trainer.state();
    REQUIRE(after.size() == before.size());
    for (const auto& [name, value] : before) {
      CAPTURE(name);
      CHECK(after.at(name).equal(value));
    }
    CHECK(loader.position() == position);
  };
  CHECK_THROWS_WITH_AS(profile_run(trainer, loader), doctest::Contains("the 20th call"),
                       std::runtime_error);
  is_unchanged();
  CHECK(profile_run(trainer, loader, {}, {.warmup = 0, .steps = 2}).step_seconds.size() == 2);
  is_unchanged();
  profile_run(trainer, loader, {}, {.warmup = 0, .steps = 2, .restore = false});
  CHECK(trainer.steps() > 1);
}

TEST_CASE("profile_run: wrong options, and a loader without a batch, are named") {
  Trainer trainer{After(same, 64), CrossEntropyLoss{}, SGD{.lr = 1e-3}, Observe<Phases>{},
                  Observe<EachUnit>{}};
  std::vector<Batch> none;
  CHECK_THROWS_WITH_AS(profile_run(trainer, none), doctest::Contains("has no batch"), BadValue);
  CHECK_THROWS_WITH_AS(profile_run(trainer, none, {}, {.steps = 0}),
                       doctest::Contains("steps is 0"), BadValue);
  CHECK_THROWS_AS(profile_run(trainer, none, "/proc/no folder"), FileFailed);
}

TEST_CASE("DataLoader::with_options: another loader of the same dataset") {
  DataLoader loader{Samples{}, DataLoaderOptions{.batch_size = 8, .shuffle = true, .seed = 3}};
  DataLoaderOptions options = loader.options();
  options.num_workers = 2;
  auto other = loader.with_options(options);
  CHECK(&other.dataset() == &loader.dataset());
  auto at = other.begin();
  for (const auto& batch : loader) {
    REQUIRE(at != other.end());
    CHECK((*at).first.equal(batch.first));
    ++at;
  }
  CHECK(at == other.end());
}

TEST_CASE("Observe<EachUnit>: a paused observer measures no step") {
  Trainer trainer{After(same, 64), CrossEntropyLoss{}, SGD{.lr = 1e-3}, Observe<Phases>{},
                  Observe<EachUnit>{}};
  auto& units = trainer.mechanism<Observe<EachUnit>>();
  const Batch batch{at::randn({8, 64}), at::zeros({8}, at::kLong)};
  units.pause();
  for (int i = 0; i < 6; ++i) trainer.step(batch);
  CHECK(units.summary().steps == 0);
  units.pause(false);
  for (int i = 0; i < 6; ++i) trainer.step(batch);
  CHECK(units.summary().steps == 3);
}

TEST_CASE("profile_run: observers are afterwards as they were, without times") {
  std::vector<Batch> batches{{at::randn({8, 64}), at::zeros({8}, at::kLong)}};
  Trainer trainer{After(same, 64),   CrossEntropyLoss{},  SGD{.lr = 1e-3},
                  Observe<Phases>{}, Observe<EachUnit>{}, Observe<Memory>{}};
  const RunProfile profile = profile_run(trainer, batches, {}, {.warmup = 0, .steps = 5});
  CHECK(profile.memory.units.size() > 1);
  CHECK(trainer.mechanism<Observe<Phases>>().summary().step.count == 0);
  CHECK(trainer.mechanism<Observe<EachUnit>>().summary().steps == 0);
  CHECK_FALSE(trainer.mechanism<Observe<EachUnit>>().is_paused());
  CHECK_FALSE(trainer.get<Observe<Memory>>().by_unit);
}

TEST_CASE("profile_run: of a recorded step it says what it cannot see") {
  std::vector<Batch> batches{{at::randn({8, 64}), at::zeros({8}, at::kLong)}};
  Trainer trainer{After(same, 64), CrossEntropyLoss{}, SGD{.lr = 1e-3}, Capture<WholeStep>{},
                  Observe<Phases>{}};
  for (int i = 0; i < 6; ++i) trainer.step(batches[0]);
  const StateDict before = trainer.state();
  const RunProfile profile = profile_run(trainer, batches, {}, {.steps = 5});
  CHECK(names(profile) == std::set<std::string>());
  CHECK(profile.units.units.empty());
  const StateDict after = trainer.state();
  for (const auto& [name, value] : before) CHECK(after.at(name).equal(value));
}
