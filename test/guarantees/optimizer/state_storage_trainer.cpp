// Trainings whose optimizers have their state in memory of its own: no bit changes.

#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "apart.hpp"
#include "guarantees/zoo.hpp"
#include "own_momentum.hpp"

namespace guarantees::state_storage_trainer {

using test::stores_apart;
using test::StoresApart;

/// As SGD, without a rate; throws in the update of one of its parameters.
struct Breaks {
  using axis = ikebana::axis::optimizer;
  double lr = 0.1;
  std::vector<Group> groups = {};
  std::shared_ptr<bool> is_broken = std::make_shared<bool>(false);
};

}  // namespace guarantees::state_storage_trainer

template <>
struct ikebana::Mechanism<guarantees::state_storage_trainer::Breaks>
    : ikebana::detail::GroupedOptimizer<guarantees::state_storage_trainer::Breaks> {
  explicit Mechanism(guarantees::state_storage_trainer::Breaks v)
      : GroupedOptimizer(std::move(v), {{"momentum_buffer"}}) {}
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    prepare_buckets(masters, gradients, rate, 1);
  }
  void update(const Masters&, StepGradients& gradients) {
    keep_if([](const detail::Bucket&) { return true; }, detail::keep_whole);
    update_buckets(gradients, [&](detail::Bucket& b, const auto&, const auto&) {
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        b.state[0][j].add_(b.gradients[j]), b.parameters[j].sub_(b.state[0][j], values.lr);
        if (*values.is_broken && b.indices[j] > 0) throw std::runtime_error("in the middle");
      }
    });
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 1); }
};

namespace guarantees::state_storage_trainer {

/// Trains with state apart, with windows of each size, and compares with a training without.
template <class O, class... Words>
void changes_nothing(const std::string& what, O optimizer, Words... words) {
  INFO(what);
  auto by = [&](auto... more) {
    using Made = Trainer<Zoo, O, Words..., decltype(more)...>;
    return trained(Made(seeded([] { return Zoo(Kind::Chain); }), optimizer, words..., more...),
                   class_batches(5, 6, width, classes));
  };
  const Trace plain = by();
  CHECK(moved(plain, 5));
  for (std::int64_t window : {0, 1, 3000, 1 << 24}) {
    CAPTURE(window);
    const StoresApart policy = stores_apart(window);
    CHECK(test::same_bits(by(policy), plain));
    CHECK(policy.storage->misuses == 0);
    CHECK(policy.storage->windows.empty() == (window == 0));
    CHECK(policy.storage->placed() == 0);  // the trainer has ended
  }
}

TEST_CASE("state storage: a training has the same bits, whatever else is in the recipe") {
  const AdamW adamw{.lr = 0.01, .groups = {no_decay()}};
  changes_nothing("clipping", adamw, ClipGradNorm{.max_norm = 0.1}, Accumulate<2>{});
  changes_nothing("BF16True", adamw, Precision<BF16True>{}, Checkpoint<Full>{});
  changes_nothing("BF16True, one parameter at a time", Muon{.lr = 0.01}, Precision<BF16True>{});
  changes_nothing("BF16Weights", Lion{.lr = 1e-3},
                  Precision<BF16Weights>{.allow_unused_units = true});
  changes_nothing("FP16, with steps that are skipped", Adafactor{},
                  Precision<FP16>{.init_scale = 0x1p20, .growth_interval = 2}, EMA{.decay = 0.5});
  changes_nothing("two optimizers", Combined<Muon, Adagrad>{}, LinearLR{.total_iters = 3});
  changes_nothing("two optimizers, BF16True", Combined<AdamW, Lion>{.match = named("a.*")},
                  Precision<BF16True>{});
  changes_nothing("in backward", InBackward<AdamW>{adamw});
  changes_nothing("in backward, BF16True", InBackward<Muon>{{.lr = 0.01}}, Precision<BF16True>{});
}

TEST_CASE("state storage: averages are stored in it, and an evaluation exchanges them in windows") {
  const auto batches = class_batches(4, 6, width, classes);
  const auto run = [&](auto... words) {
    Trainer trainer{seeded([] { return Zoo(Kind::Chain); }), SGD{.lr = 0.1}, EMA{.decay = 0.5},
                    words...};
    std::vector<double> losses;
    for (const auto& batch : batches) {
      trainer.step(batch);
      losses.push_back(trainer.evaluate(batches).loss);
    }
    return losses;
  };
  const auto compares = [&](auto precision) {
    const auto plain = run(precision);
    for (std::int64_t window : {0, 1, 3000, 1 << 24}) {
      CAPTURE(window);
      const StoresApart policy = stores_apart(window);
      CHECK(run(precision, policy) == plain);
      CHECK(policy.storage->misuses == 0);
      CHECK(policy.storage->windows.empty() == (window == 0));  // SGD has no state
      CHECK(policy.storage->placed() == 0);
    }
  };
  compares(Precision<FP32>{});
  compares(Precision<BF16True>{});  // FP32 averages of 16-bit weights
}
TEST_CASE("state storage: an update that fails is undone, also one that has ended before") {
  using Both = Combined<AdamW, Breaks>;
  using Three = Combined<Both, Breaks>;
  auto batches = class_batches(6, 6, width, classes);
  auto run = [&]<class... Words>(Words... words) {
    Three policy{.match = named("a.*", "head.*"), .first = {.match = named("a.*")}};
    policy.first.rest.is_broken = policy.rest.is_broken;
    auto broken = policy.rest.is_broken;
    Trainer<Zoo, Three, Words...> trainer(seeded([] { return Zoo(Kind::Chain); }), policy,
                                          words...);
    auto state = [&] {
      if constexpr (sizeof...(Words) == 0) return trainer.state();
      else return (words, ...).storage->with_all([&] { return trainer.state(); });
    };
    for (std::size_t s = 0; s < 6; ++s) {
      if constexpr (sizeof...(Words) > 0)
        for (std::size_t which = 0; which < 2; ++which) {
          const StateDict before = state();
          auto& values = trainer.template get<Three>();
          (which == 0 ? values.first.rest : values.rest).is_broken = std::make_shared<bool>(true);
          CHECK(test::message_of([&] { trainer.step(batches[s]); }) == "in the middle");
          (which == 0 ? values.first.rest : values.rest).is_broken = broken;
          CHECK(same_state(state(), before));
        }
      trainer.step(batches[s]);
    }
    return state();
  };
  const StateDict plain = run();
  for (std::int64_t window : {0, 1, 3000, 1 << 24}) {
    CAPTURE(window);
    const StoresApart policy = stores_apart(window);
    CHECK(same_state(run(policy), plain));
    CHECK(policy.storage->misuses == 0);
  }
}

TEST_CASE("state storage: a trainer restores a state into it") {
  auto batches = class_batches(6, 6, width, classes);
  auto made = [](StoresApart policy) {
    return Trainer{seeded([] { return Zoo(Kind::Chain); }), InBackward<AdamW>{}, policy};
  };
  const StoresApart policies[] = {stores_apart(500), stores_apart(500)};
  auto one = made(policies[0]), two = made(policies[1]);
  for (std::size_t s = 0; s < 3; ++s) one.step(batches[s]);
  two.restore(policies[0].storage->with_all([&] { return one.state(); }));
  CHECK(policies[1].storage->placed() == policies[0].storage->placed());
  CHECK(policies[1].storage->placed() > 0);
  for (std::size_t s = 3; s < 6; ++s)
    for (auto* trainer : {&one, &two}) torch::manual_seed(s), trainer->step(batches[s]);
  CHECK(same_state(policies[0].storage->with_all([&] { return one.state(); }),
                   policies[1].storage->with_all([&] { return two.state(); })));
  CHECK(policies[0].storage->misuses + policies[1].storage->misuses == 0);
}

TEST_CASE("state storage: an optimizer that keeps its state itself is an error") {
  const auto batch = class_batches(1, 6, width, classes)[0];
  auto model = seeded([] { return Zoo(Kind::Chain); });
  using RMSprop = LibTorchOptimizer<torch::optim::RMSprop>;
  CHECK(
      test::contains(test::message_of<BadValue>([&] { Trainer{model, RMSprop{}, StoresApart{}}; }),
                     "torch::optim::RMSprop makes its own in `step`"));
  Trainer trainer{model, test::OwnMomentum{}, StoresApart{}};
  const auto before = trainer.state();
  CHECK(test::contains(test::message_of<BadValue>([&] { trainer.step(batch); }),
                       "and `test::OwnMomentum` keeps its own"));
  CHECK(same_state(trainer.state(), before));
}

}  // namespace guarantees::state_storage_trainer
