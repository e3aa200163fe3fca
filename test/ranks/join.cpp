// Loaders that give ranks different numbers of batches, in fit, in evaluate and in loops by hand.
#include "test.hpp"

#include "nets.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

template <class Model>
std::vector<at::Tensor> copies(Model& model) {
  std::vector<at::Tensor> all;
  for (const auto& p : model->parameters()) all.push_back(p.detach().clone());
  return all;
}
/// Calls `f(trainer, rank)` on each of the ranks, which then have the same weights; returns these.
template <Kind K, class Model = Counted, class F>
std::vector<at::Tensor> on_ranks(std::int64_t ranks, const F& f) {
  CAPTURE(K);
  std::vector<Model> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Model>());
  std::vector<std::vector<at::Tensor>> weights(models.size());
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], AdamW{.lr = 1e-3}, Double<K>{.wire = wire}};
    f(trainer, wire->rank());
    trainer.with_full_weights([&](Model& model) { weights[r] = copies(model); });
  });
  for (const auto& one : weights) CHECK(same_bits(one, weights[0]));
  return weights[0];
}
/// The batches of each rank.
using Lists = std::vector<std::vector<Rows>>;
Lists lists(const std::vector<std::size_t>& counts) {
  const auto all = batches(9, 3);
  Lists lists;
  std::size_t next = 0;
  for (std::size_t count : counts) {
    auto& list = lists.emplace_back();
    for (std::size_t i = 0; i < count; ++i) list.push_back(all.at(next++));
  }
  return lists;
}
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
  auto f = [&](auto& trainer, std::int64_t rank) {
    const auto all = batches(2, 3);
    std::vector<Rows> mine = rank == 1 ? std::vector<Rows>() : all;
    const auto fit = [&](auto& loader) { trainer.fit(loader, {.progress = false}); };
    CHECK(contains(message_of<BadBatch>([&] { fit(mine); }),
                   "rank 1 has no batch, and had none before"));
    CHECK(trainer.steps() == 0);
    std::vector<Rows> none;
    CHECK(contains(message_of<BadBatch>([&] { fit(none); }), "the loader gave no batch"));
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
  on_ranks<Kind::DDP>(2, [](auto& trainer, std::int64_t rank) {
    const auto all = batches(4, 3);
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
    CHECK(exchanges([&] { trainer.fit(mine, options); }) == 2 * (4 * step + 1) + 3 * agreement);
  });
}

TEST_CASE("join: a rank at its end stops training, and an exception in its steps ends all") {
  on_ranks<Kind::FSDP>(2, [](auto& trainer, std::int64_t rank) {
    const auto all = batches(6, 3);
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

TEST_CASE("join: by hand, with an AnyTrainer, and at the end of an epoch of a DataLoader") {
  const Lists all = lists({3, 1});
  auto joins = [&](auto& trainer, std::int64_t rank) {
    const auto& mine = all[static_cast<std::size_t>(rank)];
    for (const Rows& batch : mine) trainer.step(batch);
    int joined = 0;
    while (auto report = trainer.join_step(mine[0])) {
      ++joined;
      CHECK(report->count() == 3);
      CHECK_FALSE(report->outputs.defined());
    }
    CHECK(joined == (rank == 0 ? 0 : 2));
    CHECK(trainer.steps() == 3);
  };
  const auto weights = on_ranks<Kind::FSDP>(2, joins);
  std::vector<Counted> models{make<Counted>(), make<Counted>()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    auto& model = models[static_cast<std::size_t>(wire->rank())];
    AnyTrainer<Rows> any =
        Trainer{model, AdamW{.lr = 1e-3}, Double<Kind::DDP>{.wire = wire}};
    joins(any, wire->rank());
    CHECK(worst_relative(copies(model), weights) < 1e-6);
    const auto& mine = all[static_cast<std::size_t>(wire->rank())];
    CHECK(any.fit(mine, {.progress = false})[0].steps == 3);
    DataLoader loader{TensorDataset(batches(1, 7)[0]),
                      {.batch_size = 3, .num_replicas = 2, .rank = wire->rank()}};
    loader.seek({0, 3});
    CHECK(any.fit(loader, {.progress = false})[0].steps == 3);
    CHECK(loader.position() == LoaderPosition{2, 0});
  });
  Counted model = make<Counted>();
  Trainer alone{model};
  CHECK_FALSE(alone.join_step(all[0][0]));
}

TEST_CASE("join: a saved position is the same on any number of ranks") {
  auto loader = [](std::int64_t ranks, std::int64_t rank) {
    return DataLoader{TensorDataset(batches(1, 20)[0]),
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
    CHECK(mine.position() == LoaderPosition{0, 2});
    trainer.fit(mine, {.progress = false});
    CHECK(trainer.steps() == 7);
    CHECK(worst_relative(copies(own), expected) < 1e-6);
  });
}

namespace {

/// A sum that is made by the first batch.
struct Lazy {
  std::string name = "lazy";
  at::Tensor rows = {};
  void update(const Rows& batch, const at::Tensor&) {
    const at::Tensor more = at::scalar_tensor(batch.input.size(0));
    rows = rows.defined() ? rows + more : more;
  }
  void reduce(RankGroup& ranks) { rows = ranks.sum(rows); }
  double value() const { return rows.item<double>(); }
};

/// Rank 0 has three batches, rank 1 one, and rank 2 one without rows, or none.
template <Kind K, class Model>
void evaluates() {
  const Lists all = lists({3, 1, 0});
  std::vector<Rows> together = all[0];
  together.push_back(all[1][0]);
  Trainer alone{Model(make<Model>())};
  const Evaluation expected = alone.evaluate(together, Accuracy{}, Lazy{});
  for (bool is_there : {true, false}) {
    auto f = [&](auto& trainer, std::int64_t rank) {
      auto mine = all[static_cast<std::size_t>(rank)];
      if (rank == 2 && is_there) mine = {rows_of(together[0], 0, 0)};
      if (K != Kind::DDP && !is_there) {
        CHECK(contains(message_of<BadBatch>([&] { trainer.evaluate(mine); }),
                       "evaluate: rank 2 has no batch"));
        return;
      }
      const Evaluation got = trainer.evaluate(mine, Accuracy{});
      CHECK(got.loss == doctest::Approx(expected.loss).epsilon(1e-6));
      CHECK(got.count == expected.count);
      CHECK(got["accuracy"] == expected["accuracy"]);
      const std::string lazy = message_of([&] { trainer.evaluate(mine, Lazy{}); });
      CHECK_MESSAGE(contains(lazy, "adds up a tensor that is undefined"), lazy);
      FitOptions<Rows> options{.validate = mine, .progress = false};
      options.metrics = {Accuracy{}};
      const auto validated = trainer.fit(std::vector{together[0]}, options)[0].validation;
      CHECK(validated->count == expected.count);
    };
    on_ranks<K, Model>(3, f);
  }
}

}  // namespace

TEST_CASE("join: an evaluation has the figures of all batches, however many a rank has") {
  evaluates<Kind::DDP, Counted>();
  evaluates<Kind::ZeRO2, Terms>();
  evaluates<Kind::FSDP, Terms>();
  evaluates<Kind::DDP, Terms>();
}

TEST_CASE("join: terms of a loss that differ between ranks are an error") {
  std::vector<Terms> models{make<Terms>(), make<Terms>()};
  std::vector<std::string> texts(2);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    models[r]->name = r == 0 ? "large" : "small";
    Trainer trainer{models[r], Double<Kind::DDP>{.wire = wire}};
    texts[r] = message_of([&] { trainer.evaluate(batches(1, 3)); });
  });
  for (const std::string& text : texts) CHECK_MESSAGE(contains(text, "other terms"), text);
}

}  // namespace test::ranks
