// A step is a transaction: an exception anywhere before the update leaves everything as it was.
#include "test.hpp"

#include <algorithm>

#include "mixed.hpp"
#include "nest.hpp"

using namespace ikebana;

namespace test::mixed {

namespace {

constexpr std::size_t never = std::size_t(-1);

/// Makes the call with this number throw, and checks that the step changed nothing.
template <class Trainer, class Batch>
void blow(Trainer& trainer, const Batch& batch, std::size_t fuse) {
  const StateDict before = trainer.state();
  const auto steps = trainer.steps();
  journal = {{}, fuse};
  CHECK_THROWS_AS(trainer.step(batch), Bomb);
  journal.fuse = never;
  bool begun = fuse > 4;  // after the five around_step
  auto aborts = std::count_if(journal.lines.begin(), journal.lines.end(),
                              [](const auto& line) { return test::contains(line, ".abort"); });
  CHECK(aborts == (begun ? 15 : 0));
  CHECK(trainer.steps() == steps);
  const StateDict after = trainer.state();  // zero moments may have been allocated
  bool unchanged = std::all_of(before.begin(), before.end(), [&](const auto& item) {
    return test::same_bits(item.second, after.at(item.first));
  });
  CHECK(unchanged);
  CHECK(test::no_gradients(trainer.model()));
}

/// Returns the calls of one more step before it commits.
template <class Trainer, class Batch>
std::vector<std::string> asked_before_update(Trainer& trainer, const Batch& batch) {
  journal = {};
  trainer.step(batch);
  auto update = std::find(journal.lines.begin(), journal.lines.end(), "optimizer.update");
  REQUIRE(update != journal.lines.end());
  return {journal.lines.begin(), update};
}

template <class Trainer>
void blow_everywhere() {
  for (int steps : {0, 1}) {
    auto advanced = [&] {
      auto trainer = std::make_unique<Trainer>(test::noisy_nest());
      for (int i = 0; i < steps; ++i) trainer->step(test::rows_of(i));
      return trainer;
    };
    auto unharmed = advanced();
    const auto lines = asked_before_update(*unharmed, test::rows_of(7));
    for (std::size_t fuse = 0; fuse < lines.size(); ++fuse) {
      CAPTURE(steps);
      CAPTURE(lines[fuse]);
      auto trainer = advanced();
      blow(*trainer, test::rows_of(7), fuse);
      trainer->step(test::rows_of(7));
      CHECK(same(trainer->state(), unharmed->state()));
    }
  }
}

template <class P>
constexpr bool safe = ikebana::detail::safe_after_update<Mechanism<P>>;
static_assert(safe<AdamW> && safe<Adam> && safe<SGD> && safe<ClipGradNorm> && safe<Accumulate<2>>);
static_assert(safe<Precision<FP32>> && safe<Precision<BF16>> && safe<Precision<FP16>>);
static_assert(safe<Checkpoint<Full>> && safe<Observe<Memory>> && safe<ConstantLR>);
using Still = Mechanisms<compose_t<AdamW>>;
using Moving = Mechanisms<compose_t<Away>>;
static_assert(noexcept(std::declval<ParametersOf<Still>&>().mark_stale()));
static_assert(noexcept(std::declval<ParametersOf<Moving>&>().mark_stale()));
static_assert(
    noexcept(std::declval<ParametersOf<Mechanisms<compose_t<AwayKept>>>&>().mark_stale()));

/// Steps that are made to fail, one after the other: none changes anything.
template <class Trainer>
struct Failing {
  Net& model;
  Trainer& trainer;
  std::int64_t resting = depot.live;
  StateDict before = trainer.state();
  std::vector<at::Tensor> seen = whole();
  int count = 0;

  std::vector<at::Tensor> whole() {
    return trainer.with_full_weights([](Net& full) { return values_of(full); });
  }
  void step(const char* what) {
    CAPTURE(what);
    torch::manual_seed(2);
    CHECK(test::contains(test::message_of([&] { trainer.step(sample(2)); }), what));
    CHECK(depot.live == resting);
    CHECK(same(trainer.state(), before));
    CHECK(test::same_bits(whole(), seen));
    CHECK(test::no_gradients(model));
    ++count;
  }
};
int counted(int& counter, auto&& f) {
  counter = 0, f();
  return counter;
}

}  // namespace

TEST_CASE("transaction: a throw at any hook up to prepare, parameters in place") {
  blow_everywhere<test::Watched<test::Nest, false>>();
}

TEST_CASE("transaction: a throw at any hook up to prepare, parameters gathered and released") {
  blow_everywhere<test::Watched<test::Nest, true>>();
}

TEST_CASE("transaction: a throw anywhere in the model changes no loss scale, schedule or moment") {
  using Rich = Trainer<test::Nest, Precision<FP16>, Checkpoint<Full>, Accumulate<2>, ClipGradNorm,
                       SGD, LinearLR>;
  auto make = [](test::Nest model) {
    return Rich(model, LinearLR{.total_iters = 5}, SGD{.lr = 0.1, .momentum = 0.9},
                Precision<FP16>{.init_scale = 4, .growth_interval = 2});
  };
  Rich trainer = make(test::noisy_nest()), unharmed = make(test::noisy_nest());
  for (auto* each : {&trainer, &unharmed}) {
    torch::manual_seed(1);
    for (int i = 0; i < 3; ++i) each->step(test::rows_of(i));
  }
  CHECK(trainer.mechanism<Precision<FP16>>().loss_scale() == 8);
  journal = {};
  torch::manual_seed(2);
  double rate = unharmed.step(test::rows_of(7)).learning_rate;
  torch::manual_seed(2);
  const auto marks = journal.lines;
  CHECK(marks.size() > 12);  // forward and backward of two microbatches, and recomputes
  for (std::size_t fuse = 0; fuse < marks.size(); ++fuse) {
    CAPTURE(marks[fuse]);
    const StateDict before = trainer.state();
    journal = {{}, fuse};
    CHECK_THROWS_AS(trainer.step(test::rows_of(7)), Bomb);
    CHECK(same(trainer.state(), before));
  }
  journal = {};
  CHECK(trainer.step(test::rows_of(7)).learning_rate == rate);
  CHECK(same(trainer.state(), unharmed.state()));
}

TEST_CASE(
    "transaction: an error of LibTorch in a later microbatch names it, and undoes the first") {
  Trainer<test::Nest> trainer(test::noisy_nest()), unharmed(test::noisy_nest());
  for (auto* each : {&trainer, &unharmed}) torch::manual_seed(1), each->step(test::rows_of(1));
  const StateDict before = trainer.state();
  auto wide = test::rows_of(3);
  wide.input = at::ones({4, 9});
  std::vector batches = {test::rows_of(2), wide, test::rows_of(3)};
  auto message = test::message_of<StepFailed>([&] { trainer.step(batches); });
  CHECK(test::contains(message, "step 1, microbatch 2 of 3"));
  CHECK(test::contains(message, "Nothing was updated"));
  CHECK(same(trainer.state(), before));
  CHECK(test::no_gradients(trainer.model()));
  for (auto* each : {&trainer, &unharmed}) torch::manual_seed(1), each->step(test::rows_of(4));
  CHECK(same(trainer.state(), unharmed.state()));
}

TEST_CASE("transaction: outputs that cannot be joined are an error before the update") {
  auto outputs = [](auto&, test::Nest& model, const test::Rows& batch) {
    auto y = model->first(batch.input);
    return Loss{y.sum(), y.numel(), batch.target};
  };
  Trainer trainer{test::noisy_nest(), outputs};
  const auto before = values_of(trainer.model());
  auto wide = test::rows_of(2);
  wide.target = at::ones({4, 2});
  CHECK_THROWS_AS(trainer.step(std::vector{test::rows_of(1), wide}), StepFailed);
  CHECK(trainer.steps() == 0);
  CHECK(test::same_bits(values_of(trainer.model()), before));
}

TEST_CASE_TEMPLATE("transaction: a step that throws leaves no unit gathered, and can be repeated",
                   Policies, std::tuple<Away>, std::tuple<Away, Checkpoint<Full>>,
                   std::tuple<AwayKept>) {
  Net model = noisy_net(), twin = noisy_net();
  trainer_of<Policies> trainer(model), unharmed(twin);
  for (auto* each : {&trainer, &unharmed}) torch::manual_seed(1), each->step(sample(1));
  torch::manual_seed(2);
  Failing<trainer_of<Policies>> failing{model, trainer};
  model->between = [&](at::Tensor x) { return model->kept = x; };  // keeps the graph
  auto boom = [](const at::Tensor&) -> at::Tensor { throw std::runtime_error("no backward"); };
  auto plainly = model->between;
  model->between = [](at::Tensor) -> at::Tensor { throw std::runtime_error("no forward"); };
  failing.step("no forward");
  model->between = [&](at::Tensor x) {
    x = plainly(x * 1);
    x.register_hook(boom);
    return x;
  };
  failing.step("no backward");
  model->between = plainly;
  torch::manual_seed(2);
  int gathers = counted(depot.gathers, [&] { unharmed.step(sample(2)); });
  int reduces = counted(depot.reduces, [&] { unharmed.evaluate(std::vector{sample(1)}); });
  CHECK(reduces == 0);
  for (int i = 0; i < gathers; ++i) {
    depot.gathers = 0, depot.failing_gather = i;
    if (failing.resting == 0) failing.step("no gather");
  }
  depot.failing_gather = -1;
  for (int i = 0; i < 4; ++i) {
    depot.reduces = 0, depot.failing_reduce = i;
    failing.step("no reduce");
  }
  depot.failing_reduce = -1;
  CHECK(failing.count >= 6);
  torch::manual_seed(2);
  trainer.step(sample(2));
  CHECK(same(trainer.state(), unharmed.state()));
}

}  // namespace test::mixed
