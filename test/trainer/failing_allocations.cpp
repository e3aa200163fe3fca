// Tests that each allocation in turn fails. What had begun is undone, or the step is made without
// it.
#include "failing.hpp"
#include "text_net.hpp"

#include <cstdlib>
#include <ikebana.hpp>
#include <ikebana/detail/parallel.hpp>
#include <ikebana/optimizer/libtorch_optimizer.hpp>
#include <memory>
#include <new>

void* operator new(std::size_t n) {
  void* const memory = test::fails() ? nullptr : std::malloc(n == 0 ? 1 : n);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace test::failing_allocations {

using namespace ikebana;

TEST_CASE("allocations: a loop in parallel visits every index once, whichever fails") {
  std::vector<float> memory(1000);
  std::vector<int> visits(memory.size());
  const int allocations = fail_each(
      [&] {
        visits.assign(visits.size(), 0);
        ikebana::detail::in_parallel(memory.data(), 1000, 10, [&](auto begin, auto end) noexcept {
          for (auto i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
        });
      },
      [&](const auto&) { CHECK(visits == std::vector<int>(visits.size(), 1)); }, 1);
  CHECK((allocations > 3) == (at::get_num_threads() > 1));
}

struct Net : torch::nn::Module {
  torch::nn::Linear first{16, 32}, last{32, 4};
  Net() {
    register_module("first", first);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& x) { return last(at::relu(first(x))); }
};

/// A trainer that could not be made leaves the model as it was, and free for another trainer.
template <class... Policies>
void leaves_the_model(const Policies&... policies) {
  auto model = std::make_shared<Net>();
  model->last->bias.set_requires_grad(false);
  Tensors before;
  for (const auto& p : model->parameters()) before.push_back(p.detach().clone());
  using Made = decltype(Trainer{model, MSELoss{}, policies...});
  std::unique_ptr<Made> trainer;
  const auto make = [&] { trainer.reset(new Made{model, MSELoss{}, policies...}); };
  make();  // LibTorch looks up an operator at its first call, and allocates for that
  trainer.reset();
  const int allocations = fail_each(make, [&](const auto&) {
    trainer.reset();
    const Tensors after = model->parameters();
    for (std::size_t i = 0; i < before.size(); ++i) {
      CHECK(same_bits(after[i], before[i]));
      CHECK(after[i].requires_grad() == (i != 3));
      CHECK(after[i].is_leaf());
    }
    CHECK_NOTHROW((Trainer{model, MSELoss{}, SGD{}}));
  });
  CHECK(allocations > 25);
}

TEST_CASE("allocations: a trainer that cannot be made changes nothing, whichever fails") {
  leaves_the_model(SGD{.lr = 0.1});
  leaves_the_model(SGD{.lr = 0.1}, Freeze<>{.match = named("first.*")});
  leaves_the_model(AdamW{}, Precision<BF16Weights>{}, EMA{});
  leaves_the_model(AdamW{}, Checkpoint<Full>{}, Precision<BF16>{});
}

/// Lets the allocation of this number fail after the update, when parameters are gathered again.
struct FailsAfterUpdate {
  using axis = ikebana::axis::average;
  int failing = 0;
};
/// State is in memory of its own, and used in windows of one parameter.
struct InWindows {
  using axis = ikebana::axis::offload;
};
/// Gathers copies, which it allocates.
struct Copies {
  using axis = ikebana::axis::offload;
};

}  // namespace test::failing_allocations

template <>
struct ikebana::Mechanism<test::failing_allocations::FailsAfterUpdate> : ikebana::AverageHooks {
  test::failing_allocations::FailsAfterUpdate values;
  bool has_failed = false;
  explicit Mechanism(test::failing_allocations::FailsAfterUpdate v) : values(v) {}

  void after_update(const Masters&, const StepGradients&) noexcept {
    test::countdown = values.failing;
  }
  void end_step(const StepGradients&, Report&) noexcept {
    has_failed = std::exchange(test::countdown, 0) == 0 && values.failing > 0;
  }
};
template <>
struct ikebana::Mechanism<test::failing_allocations::Copies> : ikebana::OffloadHooks {
  static constexpr bool moves_parameters = true, keeps_gathered = true;
  test::failing_allocations::Copies values;
  explicit Mechanism(test::failing_allocations::Copies v) : values(v) {}
  Tensors gather(const Unit&, Tensors masters) {
    for (auto& t : masters) t = t.clone();
    return masters;
  }
};

template <>
struct ikebana::Mechanism<test::failing_allocations::InWindows> : ikebana::OffloadHooks,
                                                                  ikebana::StateStorage {
  test::failing_allocations::InWindows values;
  bool is_open = false;
  explicit Mechanism(test::failing_allocations::InWindows v) : values(v) {}
  ikebana::StateStorage* state_storage() { return this; }
  at::Tensor place_state(const at::Tensor& state) override { return state.clone(); }
  std::int64_t window_bytes() const override { return 1; }
  void begin_window(const Tensors&) noexcept override { CHECK(!std::exchange(is_open, true)); }
  void end_window(const Tensors&) noexcept override { CHECK(std::exchange(is_open, false)); }
};

namespace test::failing_allocations {

/// Returns whether both show the same bits, or nothing.
bool show_the_same(const at::Tensor& a, const at::Tensor& b) {
  using ikebana::detail::is_away;
  return is_away(a) || is_away(b) ? is_away(a) == is_away(b) : same_bits(a, b);
}
/// Returns how many allocations there are after an update. Whichever fails, the next step and
/// evaluation compute with the new master weights.
template <class Moves>
int gathers_again() {
  auto made = [] {
    torch::manual_seed(0);
    return Trainer{std::make_shared<Net>(), MSELoss{}, SGD{.lr = 0.1}, Moves{}, FailsAfterUpdate{}};
  };
  const std::pair<at::Tensor, at::Tensor> batch{at::ones({2, 16}), at::ones({2, 4})};
  auto whole = made(), trainer = made();
  for (int failing = 1;; ++failing) {
    for (auto* t : {&whole, &trainer}) {
      t->template get<FailsAfterUpdate>().failing = t == &whole ? 0 : failing;
      t->step(batch);
    }
    const bool failed = trainer.template mechanism<FailsAfterUpdate>().has_failed;
    if (!failed) CHECK(show_the_same(trainer.model()->last->weight, whole.model()->last->weight));
    CHECK(trainer.evaluate(std::vector{batch}).loss == whole.evaluate(std::vector{batch}).loss);
    CHECK(show_the_same(trainer.model()->last->weight, whole.model()->last->weight));
    if (!failed) return failing - 1;
  }
}

TEST_CASE("allocations: none gathers the parameters again where nothing may throw") {
  CHECK(gathers_again<Precision<BF16Weights>>() == 0);
  CHECK(gathers_again<Copies>() == 0);
}

/// Each allocation of a first and of a later step fails in turn: the state is that of before, and
/// the step can be repeated; or, of at most `done_without` allocations, it is that of after, and
/// the next one fails in a step from before.
template <class... Policies>
void leaves_a_step_but(int done_without, bool sparse, const Policies&... policies) {
  torch::manual_seed(1);
  const std::pair batch{at::randint(12, {8}, at::kLong), at::randint(4, {8}, at::kLong)};
  auto fresh = [&] {
    torch::manual_seed(7);
    return Trainer{Text(sparse), policies...};
  };
  for (auto warm = fresh(); warm.steps() < 3;) warm.step(batch);  // operators are looked up once
  auto unharmed = fresh(), trainer = fresh();
  for (const char* which : {"first", "later"}) {
    CAPTURE(which);
    FailingAllocator failing;
    const StateDict before = trainer.state();
    unharmed.step(batch);
    const StateDict after = unharmed.state();
    trainer.restore(before);  // the random generators
    int undone = 0;
    const int allocations =
        fail_each([&] { trainer.step(batch); },
                  [&](const std::exception_ptr& error) {
                    CHECK_FALSE(at::hasThreadLocalCallbacks());
                    CHECK(same_state(trainer.state(), error == nullptr ? after : before));
                    if (error == nullptr) return trainer.restore(before);
                    ++undone;
                    CHECK_THROWS_AS(std::rethrow_exception(error), OutOfMemory);
                  });
    CHECK(allocations - undone <= done_without);
    CHECK(undone > 25);
    trainer.step(batch);
    CHECK(same_state(trainer.state(), after));
  }
}
template <class... Policies>
void leaves_a_step(bool sparse, const Policies&... policies) {
  leaves_a_step_but(0, sparse, policies...);
}

TEST_CASE("allocations: a step that runs out of memory changes nothing, whichever fails") {
  on_own_thread([] {
    leaves_a_step(false, AdamW{.groups = {no_decay()}}, Precision<BF16>{}, EMA{});
    leaves_a_step(false, Adam{.amsgrad = true}, Precision<TF32>{});
    leaves_a_step(false, SGD{.lr = 0.1, .momentum = 0.9}, Precision<FP16>{}, ClipGradNorm{},
                  ClipGradValue{.clip_value = 0.5}, SkipSpikes{.window = 2}, SWA{});
    leaves_a_step(false, Adagrad{}, Precision<FP8>{});
    leaves_a_step(false, Lion{}, Precision<BF16True>{});
    leaves_a_step(false, Muon{.match = matrices_but(named("table.*"))});
    leaves_a_step(false, Adafactor{}, Precision<FP16>{}, EMA{.use_buffers = true});
    leaves_a_step(true, SparseAdam{}, Precision<BF16Weights>{});
    leaves_a_step(false, AdamW8bit{}, Checkpoint<Full>{}, Accumulate<2>{});
    leaves_a_step_but(50, false, AdamW{}, Checkpoint<Budget<>>{.limit = GiB(1)});
    // Buffers that return to a list, and sections, are done without.
    leaves_a_step_but(6, false, AdamW{}, Offload<CPU, Activations, Parameters>{.min_bytes = 0});
    const auto folder = std::filesystem::current_path();  // on a disk
    leaves_a_step_but(6, false, AdamW{},
                      Offload<Disk, Activations, OptimizerState>{.folder = folder, .min_bytes = 0});
    const auto not_last = [](const std::string& name, const at::Tensor&) {
      return !name.starts_with("last.");
    };
    using Three = Combined<Adagrad, Combined<AdamW, SGD>>;
    const Three three{.match = named("table.*"), .rest = {.match = named("norm.*")}};
    using Four = Combined<Three, LibTorchOptimizer<torch::optim::Adam>>;
    leaves_a_step(false, Four{.match = not_last, .first = three});
    leaves_a_step(false, three, InWindows{});
    leaves_a_step(true, SparseAdam{}, Precision<BF16True>{}, InWindows{});
  });
}

/// LibTorch's fused operators would copy a gradient that is not contiguous, in an update.
TEST_CASE("allocations: a step of weights in channels_last changes nothing, whichever fails") {
  at::globalContext().setUserEnabledMkldnn(false);  // it stays broken after a failure
  on_own_thread([] {
    torch::nn::Sequential made(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 8, 3)),
                               torch::nn::Flatten());
    torch::manual_seed(1);
    const std::pair batch{torch::randn({2, 3, 5, 5}), torch::randint(8 * 9, {2}, at::kLong)};
    auto check = [&](const auto& optimizer) {
      auto net = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(made->clone());
      Trainer trainer{net, CrossEntropyLoss{}, optimizer, Layout<ChannelsLast>{}};
      trainer.step(batch);
      trainer.step(batch);
      FailingAllocator failing;
      const StateDict before = trainer.state();
      const int allocations = fail_each([&] { trainer.step(batch); },
                                        [&](const std::exception_ptr& error) {
                                          if (error == nullptr) trainer.restore(before);
                                          CHECK(same_state(trainer.state(), before));
                                        });
      CHECK(allocations > 12);
    };
    check(AdamW{});
    check(Adam{});
    check(SGD{.lr = 0.1, .momentum = 0.9});
    check(Adagrad{});
  });
  at::globalContext().setUserEnabledMkldnn(true);
}

}  // namespace test::failing_allocations
