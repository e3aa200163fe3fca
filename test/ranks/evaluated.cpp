// Tests evaluations of ranks that have different numbers of batches.
#include "test.hpp"

#include "lists.hpp"

using namespace ikebana;

namespace test::ranks {

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
        CHECK(
            contains(message_of([&] { trainer.evaluate(mine); }), "evaluate: rank 2 has no batch"));
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
  const auto all = batches(1, 3);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    models[r]->name = r == 0 ? "large" : "small";
    Trainer trainer{models[r], Double<Kind::DDP>{.wire = wire}};
    texts[r] = message_of([&] { trainer.evaluate(all); });
  });
  for (const std::string& text : texts) CHECK_MESSAGE(contains(text, "other terms"), text);
}

}  // namespace test::ranks
