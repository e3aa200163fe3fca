// Tests the state of optimizers in memory of its own, of which an update uses a window at a time.
#include "test.hpp"

#include <ikebana/optimizer/libtorch_optimizer.hpp>
#include <set>

#include "alone.hpp"
#include "apart.hpp"
#include "guarantees/zoo.hpp"
#include "own_momentum.hpp"

namespace guarantees::state_storage {

using test::Apart;
using All = OptimizersAnd<>;

/// These bytes stand for all state at once, each parameter by itself, some of them, and all of them
/// in one window.
constexpr std::int64_t windows[] = {0, 1, 150, 1 << 20};

at::Tensor flag(double value) { return at::full({}, value, at::kFloat); }

/// An optimizer with a storage, and its state as it is in there.
template <class Policy>
struct Stored {
  Apart storage;
  Alone<Policy> alone;
  Stored(Policy policy, std::int64_t window, at::ScalarType type = at::kFloat)
      : alone(policy, type, /*mixed=*/type != at::kFloat, (storage.window = window, &storage)) {}

  StateDict state() {
    return storage.with_all([&] { return alone.state(); });
  }
  void restore(const StateDict& saved) {
    storage.with_all([&] { return alone.restore(saved), 0; });
  }
  /// Returns the state of each parameter that has a gradient, by its memory, with the parameter's
  /// index.
  std::map<Apart::Address, std::size_t> used(const Tensors& gradients) {
    std::map<Apart::Address, std::size_t> all;
    for (const auto& [name, tensor] : alone.state_view())
      for (std::size_t i = 0; i < gradients.size(); ++i)
        if (gradients[i].defined() && storage.has(tensor) &&
            test::contains(name, "." + alone.masters.names[i] + "."))
          all[tensor.data_ptr()] = i;
    return all;
  }
  /// Checks that the windows of the last update were of all used state, and no larger than asked.
  void check_windows(const Tensors& gradients) {
    const auto expected = used(gradients);
    std::set<Apart::Address> seen;
    for (const auto& window : std::exchange(storage.windows, {})) {
      std::int64_t bytes = 0;
      std::set<std::size_t> parameters;
      for (Apart::Address memory : window) {
        CHECK(seen.insert(memory).second);
        bytes += static_cast<std::int64_t>(storage.bytes_of(memory));
        if (expected.count(memory) != 0) parameters.insert(expected.at(memory));
      }
      CHECK((bytes <= storage.window || parameters.size() == 1));
    }
    CHECK(seen.size() == (storage.window == 0 ? 0 : expected.size()));
    for (Apart::Address memory : seen) CHECK(expected.count(memory) == 1);
  }
  /// Checks that all state but counts of steps is in the storage, and nothing else is.
  void check_is_placed() {
    std::size_t tensors = 0;
    for (const auto& [name, tensor] : alone.state_view()) {
      const bool is_state = name.starts_with("ikebana.") && !name.ends_with(".step") &&
                            std::ranges::any_of(alone.masters.names, [&, &key = name](auto& p) {
                              return test::contains(key, "." + p + ".");
                            });
      CHECK(storage.has(tensor) == is_state);
      tensors += is_state;
    }
    CHECK(storage.placed() == tensors);
    CHECK(storage.misuses == 0);
  }
};

TEST_CASE("state storage: no bit changes, and an update uses each tensor in one window") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (std::int64_t window : windows)
      for (bool on_device : {false, true})
        for (auto type : {at::kFloat, at::kDouble}) {
          CAPTURE(window);
          CAPTURE(on_device);
          Alone<Policy> plain(lively<Policy>(), type, /*mixed=*/type != at::kFloat);
          Stored<Policy> apart(lively<Policy>(), window, type);
          if (on_device) plain.as_elsewhere(), apart.alone.as_elsewhere();
          for (int s = 0; s < 7; ++s) {
            const Tensors gradients = plain.gradients(s, in_turn);
            plain.step(gradients, flag(2), flag(s == 3)),
                apart.alone.step(gradients, flag(2), flag(s == 3));
            if (s == 3) CHECK(apart.storage.windows.empty());
            else apart.check_windows(gradients);
            CHECK(same_state(apart.state(), plain.state()));
          }
          apart.check_is_placed();
          CHECK(apart.storage.placed() > 0);
        }
  });
}

TEST_CASE("state storage: windows are made of consecutive parameters, as many as fit") {
  auto tensors = [](AdamW policy, std::int64_t window) {
    Stored<AdamW> apart(std::move(policy), window);
    apart.alone.run(0, 2);
    std::vector<std::size_t> sizes;
    apart.storage.windows.clear();
    apart.alone.run(2, 3);
    for (const auto& one : apart.storage.windows) sizes.push_back(one.size());
    return sizes;
  };
  using Sizes = std::vector<std::size_t>;  // tensors of 192, 80, 20, 16 and 4 bytes, two of each
  CHECK(tensors({}, 1) == Sizes{2, 2, 2, 2, 2});
  CHECK(tensors({}, 199) == Sizes{2, 2, 6});
  CHECK(tensors({}, 200) == Sizes{2, 4, 4});
  CHECK(tensors({}, 624) == Sizes{10});
  CHECK(tensors({.amsgrad = true}, 624) == Sizes{3, 12});
  CHECK(tensors({.groups = {{.match = named("linear_*")}}}, 624) == Sizes{6, 4});
  CHECK(tensors({}, 0).empty());
}

TEST_CASE("state storage: the size of a window may change between steps, and state be added") {
  Alone<SGD> plain(SGD{.lr = 0.1});
  Stored<SGD> apart(SGD{.lr = 0.1}, 1);
  for (int s = 0; s < 8; ++s) {
    if (s == 2) plain.values().momentum = apart.alone.values().momentum = 0.9;
    const Tensors gradients = plain.gradients(s);
    plain.step(gradients);
    apart.storage.with_all([&] { return apart.storage.window = windows[s % 4]; });
    apart.alone.step(gradients);
    apart.check_windows(gradients);
    CHECK(same_state(apart.state(), plain.state()));
    CHECK(apart.storage.placed() == (s < 2 ? 0 : plain.masters.values.size()));
  }
  apart.check_is_placed();
}

TEST_CASE("state storage: a state that is loaded is placed, and continues with the same bits") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    for (std::int64_t window : windows) {
      Alone<Policy> plain(lively<Policy>());
      Stored<Policy> one(lively<Policy>(), window), other(lively<Policy>(), window);
      plain.run(0, 4, in_turn), one.alone.run(0, 4, in_turn), other.alone.run(9, 12);
      other.restore(one.state());
      CHECK(same_state(other.state(), one.state()));
      other.check_is_placed();
      plain.run(4, 9, in_turn), other.alone.run(4, 9, in_turn);
      CHECK(same_state(other.state(), plain.state()));
      other.check_is_placed();
    }
  });
}

TEST_CASE("state storage: where a tensor cannot be placed, nothing changes") {
  All::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Alone<Policy> plain(lively<Policy>());
    Stored<Policy> apart(lively<Policy>(), 150);
    plain.run(0, 1, in_turn), apart.alone.run(0, 1, in_turn);  // one parameter has no state yet
    const StateDict before = apart.state();
    const auto placed = apart.storage.placed();
    plain.run(1, 3);
    const StateDict after = plain.state();
    bool failed = true;
    for (int fails_at = 1; failed; ++fails_at) {
      apart.storage.fails_at = fails_at;
      failed = test::message_of([&] { apart.alone.run(1, 2); }) == "no place";
      apart.storage.fails_at = 0;
      CHECK((failed || fails_at > 1));
      if (!failed) break;
      apart.alone.abort();
      CHECK(same_state(apart.state(), before));
      CHECK(apart.storage.placed() == placed);
    }
    apart.alone.run(2, 3);
    CHECK(same_state(apart.state(), after));
    apart.storage.fails_at = 2;
    CHECK(test::message_of([&] { apart.restore(before); }) == "no place");
    CHECK(same_state(apart.storage.with_all([&] { return apart.alone.state(); }), after));
    apart.check_is_placed();
  });
}

}  // namespace guarantees::state_storage

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
    : ikebana::GroupedOptimizer<guarantees::state_storage_trainer::Breaks> {
  explicit Mechanism(guarantees::state_storage_trainer::Breaks v)
      : GroupedOptimizer(std::move(v), {{"momentum_buffer"}}) {}
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    prepare_buckets(masters, gradients, rate, 1);
  }
  void update(const Masters&, StepGradients& gradients) {
    keep_if([](const Bucket&) { return true; });
    for (auto ready = ready_buckets(gradients); const Bucket& b : ready)
      for (std::size_t j = 0; j < b.indices.size(); ++j) {
        b.state[0][j].add_(b.gradients[j]), b.parameters[j].sub_(b.state[0][j], values.lr);
        if (*values.is_broken && b.indices[j] > 0) throw std::runtime_error("in the middle");
      }
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
