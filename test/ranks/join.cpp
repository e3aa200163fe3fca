// Tests loaders that give ranks different numbers of batches, in fit and in loops by hand.
#include "test.hpp"

#include <array>

#include "lists.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

/// Trains one rank on what all ranks have in each step. Returns the mean loss of the steps.
template <class T>
double by_hand(T& trainer, const Lists& lists, std::size_t batches_per_step, std::size_t steps) {
  double sum = 0;
  for (std::size_t step = 0; step < steps; ++step) {
    std::vector<Rows> together;
    for (const auto& list : lists)
      for (std::size_t i = step * batches_per_step; i < (step + 1) * batches_per_step; ++i)
        if (i < list.size()) together.push_back(list[i]);
    sum += trainer.step(together).loss();
  }
  return sum / static_cast<double>(steps);
}

template <Kind K, class Model>
void fits(const std::vector<std::size_t>& counts, std::int64_t batches_per_step,
          std::size_t steps) {
  CAPTURE(batches_per_step);
  const Lists all = lists(counts);
  Model model = make<Model>();
  Trainer alone{model, AdamW{.lr = 1e-3}};
  const auto each = static_cast<std::size_t>(batches_per_step);
  const std::vector<double> losses{by_hand(alone, all, each, steps),
                                   by_hand(alone, all, each, steps)};
  auto f = [&](auto& trainer, std::int64_t rank) {
    std::int64_t heard = 0;
    FitOptions<Rows> options{.epochs = 2, .batches_per_step = batches_per_step, .progress = false};
    options.on_step = [&](const Report&) { ++heard; };
    const History history = trainer.fit(all[static_cast<std::size_t>(rank)], options);
    REQUIRE(history.size() == 2);
    for (std::size_t e : {0, 1}) {
      CHECK(history[e].steps == std::int64_t(steps));
      CHECK(history[e].loss == doctest::Approx(losses[e]).epsilon(1e-6));
    }
    CHECK(trainer.steps() == 2 * std::int64_t(steps));
    CHECK(heard == trainer.steps());
  };
  const auto weights = on_ranks<K, Model>(std::ssize(counts), f);
  CHECK(worst_relative(weights, copies(model)) < 1e-6);
}

}  // namespace

TEST_CASE("join: fit goes on until the last rank has no batch, and has the figures of all") {
  fits<Kind::DDP, Counted>({3, 1, 2}, 1, 3);
  fits<Kind::ZeRO2, Late>({1, 3}, 1, 3);
  fits<Kind::FSDP, Counted>({3, 1, 2}, 1, 3);
  fits<Kind::DDP, Late>({5, 2}, 2, 3);
  fits<Kind::FSDP, Counted>({2, 5}, 2, 3);
}

namespace {

template <Kind K>
void refuses_no_shape() {
  const auto all = batches(2, 3);
  auto f = [&](auto& trainer, std::int64_t rank) {
    std::vector<Rows> mine = rank == 1 ? std::vector<Rows>() : all;
    const auto fit = [&](auto& loader) { trainer.fit(loader, {.progress = false}); };
    CHECK(contains(message_of([&] { fit(mine); }), "rank 1 has no batch, and had none before"));
    CHECK(trainer.steps() == 0);
    std::vector<Rows> none;
    CHECK(contains(message_of([&] { fit(none); }), "the loader gave no batch"));
    if (rank == 1) mine = {rows_of(all[0], 0, 0)};  // one without rows
    CHECK_NOTHROW(fit(mine));
    CHECK(trainer.steps() == 2);
  };
  on_ranks<K>(2, f);
}

}  // namespace

TEST_CASE("join: a rank that never had a batch is an error of all, unless none has one") {
  refuses_no_shape<Kind::DDP>();
  refuses_no_shape<Kind::FSDP>();
}

TEST_CASE("join: an epoch costs one exchange more than its steps") {
  const auto all = batches(4, 3);
  on_ranks<Kind::DDP>(2, [&](auto& trainer, std::int64_t rank) {
    auto& wire = *trainer.template mechanism<Double<Kind::DDP>>().values.wire;
    auto exchanges = [&](auto&& f) {
      const auto before = wire.exchanges;
      f();
      return wire.exchanges - before;
    };
    trainer.step(all[0]);
    const auto step = exchanges([&] { trainer.step(all[0]); });
    const auto agreement = exchanges([&] { trainer.agree_to_stop_now(StopWish::No); });
    const std::vector<Rows> mine(all.begin(), all.begin() + (rank == 0 ? 4 : 1));
    FitOptions<Rows> options{.epochs = 2, .progress = false};
    const auto comparison = 4;  // the exchanges that compare options and loaders, and the meetings
                                // of the ranks before and after
    CHECK(exchanges([&] { trainer.fit(mine, options); }) ==
          2 * (4 * step + 1) + 3 * agreement + comparison);
  });
}

TEST_CASE("join: a rank at its end stops training, and an exception in its steps ends all") {
  const auto all = batches(6, 3);
  on_ranks<Kind::FSDP>(2, [&](auto& trainer, std::int64_t rank) {
    const std::vector<Rows> mine(all.begin(), all.begin() + (rank == 0 ? 6 : 2));
    FitOptions<Rows> options{.epochs = 2, .progress = false};
    options.stop = [&] { return rank == 1 && trainer.steps() == 3; };
    CHECK(trainer.fit(mine, options).stopped);
    CHECK(trainer.steps() == 4);
    options.stop = [&] { return rank == 1 && trainer.steps() == 4 + 6; };  // in the last step
    CHECK(trainer.fit(mine, options).stopped);
    CHECK(trainer.steps() == 10);
    options = {.progress = false};
    options.on_step = [&](const Report&) {
      if (rank == 1 && trainer.steps() == 13) throw std::runtime_error("no such file");
    };
    CHECK(contains(message_of([&] { trainer.fit(mine, options); }), "no such file"));
    CHECK_NOTHROW(trainer.step(mine[0]));
  });
}

namespace {

/// Notes the steps that it is given.
struct Notes {
  std::vector<std::int64_t>* steps;
  void log(const Report& report) { steps->push_back(report.step); }
};

}  // namespace

TEST_CASE("join: fit by steps validates and ends alike on all ranks, and rank 0 has the log") {
  const auto all = batches(5, 3), held_out = batches(2, 7);
  std::array<std::vector<double>, 2> losses;
  on_ranks<Kind::FSDP>(2, [&](auto& trainer, std::int64_t rank) {
    const std::vector<Rows> mine(all.begin(), all.begin() + (rank == 0 ? 5 : 2));
    std::vector<std::int64_t> logged;
    FitOptions<Rows> options{.max_steps = 8, .validate = held_out, .validate_every = 3};
    options.loggers = {Notes{&logged}}, options.log_every = 4, options.progress = false;
    const History history = trainer.fit(mine, options);
    CHECK((trainer.steps() == 8 && history.size() == 2 && !history.stopped));
    CHECK((history[0].steps == 5 && history[1].steps == 3));
    for (const Validation& found : history.validations)
      losses[static_cast<std::size_t>(rank)].push_back(found.loss);
    CHECK(logged == (rank == 0 ? std::vector<std::int64_t>{3, 7} : std::vector<std::int64_t>()));
    options.max_steps = 3 + rank;
    CHECK(contains(message_of([&] { trainer.fit(mine, options); }), "max_steps"));
  });
  CHECK((losses[0].size() == 2 && losses[0] == losses[1]));
}

TEST_CASE("join: by hand, with an AnyTrainer, and at the end of an epoch of a DataLoader") {
  const Lists all = lists({3, 1});
  auto joins = [&](auto& trainer, std::int64_t rank) {
    const auto& mine = all[static_cast<std::size_t>(rank)];
    std::vector<double> losses;
    for (const Rows& batch : mine) trainer.step(batch);
    while (auto report = trainer.join_step(mine[0])) losses.push_back(report->loss());
    CHECK(std::ssize(losses) == (rank == 0 ? 0 : 2));
    CHECK(trainer.steps() == 3);
  };
  const auto weights = on_ranks<Kind::FSDP>(2, joins);
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  const TensorDataset dataset(batches(1, 7)[0]);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    auto& model = models[static_cast<std::size_t>(wire->rank())];
    AnyTrainer<Rows> any = Trainer{model, AdamW{.lr = 1e-3}, Double<Kind::DDP>{.wire = wire}};
    joins(any, wire->rank());
    CHECK(worst_relative(copies(model), weights) < 1e-6);
    const auto& mine = all[static_cast<std::size_t>(wire->rank())];
    CHECK(any.fit(mine, {.progress = false})[0].steps == 3);
    const std::int64_t ranks = any.world_size(), rank = any.rank();
    DataLoader loader{dataset, {.batch_size = 3, .num_replicas = ranks, .rank = rank}};
    loader.seek({0, 3});
    CHECK(any.fit(loader, {.progress = false})[0].steps == 3);
    CHECK(loader.position() == BatchPosition{2, 0});
  });
  Counted model = make<Counted>();
  Trainer alone{model};
  CHECK_FALSE(alone.join_step(all[0][0]));
}

TEST_CASE("join: a saved position is the same on any number of ranks") {
  const Rows samples = batches(1, 20)[0];
  auto loader = [&](std::int64_t ranks, std::int64_t rank) {
    return DataLoader{TensorDataset(samples),
                      {.batch_size = 3, .shuffle = true, .num_replicas = ranks, .rank = rank}};
  };
  Counted model = make<Counted>();
  Trainer alone{model, AdamW{.lr = 1e-3}};
  auto first = loader(1, 0), rest = loader(1, 0);
  StateDict state;
  for (auto& batch : first) {
    alone.step(batch);
    if (alone.steps() != 2) continue;
    state = alone.state(first);
    break;
  }
  alone.restore(state, rest);
  alone.fit(rest, {.progress = false});
  CHECK(alone.steps() == 7);
  const auto expected = copies(model);
  std::vector<Counted> models{make<Counted>(), make<Counted>(), make<Counted>()};
  on_threads(3, [&](std::shared_ptr<Wire> wire) {
    auto& own = models[static_cast<std::size_t>(wire->rank())];
    Trainer trainer{own, AdamW{.lr = 1e-3}, Double<Kind::DDP>{.wire = wire}};
    auto mine = loader(3, wire->rank());
    trainer.restore(state, mine);
    CHECK(mine.position() == BatchPosition{0, 2});
    trainer.fit(mine, {.progress = false});
    CHECK(trainer.steps() == 7);
    CHECK(worst_relative(copies(own), expected) < 1e-6);
  });
}

}  // namespace test::ranks
