// AnyTrainer: a trainer whose recipe is chosen when the program runs gives the same bits.
#include "test.hpp"

#include "classifier.hpp"

using namespace ikebana;

namespace test::any_trainer {

struct Batch {
  at::Tensor input, target;
};
std::vector<Batch> data(int n = 4) {
  std::vector<Batch> all;
  for (int i = 0; i < n; ++i) all.push_back({random({6, 3}, i), at::arange(6) % 5});
  return all;
}
auto concrete() {
  return Trainer{linear(), CrossEntropyLoss{}, AdamW{.lr = 0.1}, Accumulate<2>{},
                 EMA{.decay = 0.5}};
}
AnyTrainer<Batch> erased() { return concrete(); }

TEST_CASE("AnyTrainer: every method gives the same bits as the trainer itself") {
  auto plain = concrete();
  auto any = erased();
  for (const auto& batch : data()) {
    CHECK(same_bits(plain.step(batch).mean(), any.step(batch).mean()));
    CHECK(same_bits(plain.step(data(2)).mean(), any.step(data(2)).mean()));
  }
  CHECK(same(plain.state(), any.state()));
  CHECK(any.steps() == 8);
  CHECK(any.describe() == plain.describe());
  auto mine = plain.evaluate(data(), Accuracy{}), theirs = any.evaluate(data(), Accuracy{});
  CHECK(mine.loss == theirs.loss);
  CHECK(mine["accuracy"] == theirs["accuracy"]);
  CHECK(same_bits(plain.model()->parameters(), any.model()->parameters()));
  any.with_full_weights(
      [&](auto& model) { CHECK(same_bits(model->parameters(), plain.model()->parameters())); });
  any.with_full_weights(
      [&](auto& model) {
        plain.with_full_weights(
            [&](auto& twin) { CHECK(same_bits(model->parameters(), twin->parameters())); },
            {.averaged = true});
      },
      {.averaged = true});
}

TEST_CASE("AnyTrainer: fit with validation, and a state restored from one into the other") {
  auto plain = concrete();
  auto any = erased();
  auto loader = data(), held_out = data(2);
  FitOptions<Batch> options{.epochs = 2, .batches_per_step = 2, .validate = held_out};
  options.metrics = {Accuracy{}};
  auto mine = plain.fit(loader, options), theirs = any.fit(loader, options);
  REQUIRE(mine.size() == theirs.size());
  for (std::size_t e = 0; e < mine.size(); ++e) {
    CHECK(mine[e].loss == theirs[e].loss);
    CHECK(mine[e].validation->loss == theirs[e].validation->loss);
  }
  auto other = concrete();
  other.restore(any.state());
  CHECK(same(other.state(), plain.state()));
}

TEST_CASE("AnyTrainer: fit passes its metric to a schedule that needs one") {
  AnyTrainer<Batch> any = Trainer{linear(), CrossEntropyLoss{}, SGD{.lr = 1e-30},
                                  ReduceLROnPlateau{.factor = 0.5, .patience = 0, .eps = 0}};
  any.fit(data(), {.epochs = 3});
  CHECK(any.step(data(1)[0]).learning_rate == 0.25e-30);
}

TEST_CASE("AnyTrainer: get returns a policy by type if the recipe has it") {
  auto any = erased();
  REQUIRE(any.get_if<AdamW>());
  any.get_if<AdamW>()->lr = 0.25;
  CHECK(any.step(data(1)[0]).learning_rate == 0.25);
  CHECK(any.get_if<SGD>() == nullptr);
}

TEST_CASE("AnyTrainer: errors are passed on, and use after a move is an error") {
  auto any = erased();
  Batch bad{random({6, 2}), at::arange(6) % 5};
  CHECK(undone<StepFailed>(any, data(1)[0], [&] { any.step(bad); }, {"shape"}) == "");
  auto next = std::move(any);
  CHECK(told<Error>([&] { any.step(bad); }, {"it was moved from"}) == "");
}

TEST_CASE("Recipes: by name, in order, each once, and an unknown name lists the known ones") {
  Recipes<Batch, double> recipes;
  recipes.add("plain", [](double lr) { return Trainer{linear(), CrossEntropyLoss{}, SGD{lr}}; })
      .add("adam", [](double lr) { return Trainer{linear(), CrossEntropyLoss{}, AdamW{lr}}; });
  CHECK(recipes.names() == std::vector<std::string>{"adam", "plain"});
  auto made = recipes.make("plain", 0.5);
  CHECK(made.get_if<SGD>()->lr == 0.5);
  CHECK(told<BadValue>([&] { recipes.make("adamw", 1); },
                       {"there is no `adamw`", "Name one of: adam, plain."}) == "");
  CHECK(told<BadValue>([&] { recipes.add("plain", {}); }, {"`plain` was added already"}) == "");
}

}  // namespace test::any_trainer
