#pragma once
// Measures one row: what a recipe is estimated to take, and what a training of it takes.
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/estimate.hpp>

#include "table.hpp"

namespace bench {

/// Losses of three steps, and the most memory in use in the second and the third, the batch and the
/// model included. The first step makes the state of optimizers.
struct Training {
  std::vector<double> losses;
  std::int64_t peak = 0;
};

/// Every training starts from the same weights and uses the same batch. The counter is of this
/// function and no part of the trainer.
template <class Recipe, class Maker, class MakeBatch>
Training train(const Maker& maker, const MakeBatch& make_batch) {
  ikebana::bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  torch::manual_seed(1);
  const auto batch = make_batch();
  Recipe trainer{maker};
  Training training;
  for (int step = 0; step < 3; ++step) {
    training.losses.push_back(trainer.step(batch).loss());
    if (step == 0) counter.reset_peak();
  }
  training.peak = counter.peak() - before;
  trainer.restore_model();
  return training;
}

/// Returns the figures of a recipe. Under Shard `options` say for which rank it is estimated from
/// shapes. The others are on ranks that exist.
template <class Recipe, class Maker, class MakeBatch>
Row measure(const char* model, const char* recipe, const Maker& maker, const MakeBatch& make_batch,
            ikebana::EstimateOptions options = {}) {
  Row row{.model = model, .recipe = recipe};
  row.shapes = ikebana::estimate<Recipe>(maker, ikebana::shapes(make_batch()), options).peak;
  row.measured_form = ikebana::estimate<Recipe>(maker, make_batch()).peak;
  const Training training = train<Recipe>(maker, make_batch);
  row.training = training.peak, row.losses = training.losses;
  return row;
}

/// The figures of a recipe whose plan is made for `budget` bytes, which is a number of what this
/// function allocates: the process has other memory in use.
template <class Model, class Maker, class MakeBatch>
Row measure_budget(const char* model, std::int64_t budget, const Maker& maker,
                   const MakeBatch& make_batch) {
  using Word = ikebana::Checkpoint<ikebana::Budget<>>;
  using Recipe = ikebana::Trainer<Model, ikebana::AdamW, Word>;
  ikebana::bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  const Word word{.limit = budget + before};
  Row row{.model = model, .recipe = "AdamW, `Checkpoint<Budget<>>` of " + mib(budget) + " MiB"};
  row.shapes =
      ikebana::estimate<Recipe>(maker, ikebana::shapes(make_batch()), Word{.limit = budget}).peak;
  row.measured_form = ikebana::estimate<Recipe>(maker, make_batch(), word).peak;
  torch::manual_seed(1);
  const auto batch = make_batch();
  Recipe trainer{maker, word};
  for (int step = 0; step < 3; ++step) {
    row.losses.push_back(trainer.step(batch).loss());
    if (step == 0) counter.reset_peak();
  }
  row.training = counter.peak() - before;
  row.budget = budget;
  row.plan = trainer.template mechanism<Word>().planned().predicted.peak - before;
  return row;
}

/// Measures the rows that every model has. Returns whether the bars of all hold.
template <class Model, class Config, class... Shape>
bool rows_of(const char* name, const Config& config, Shape... shape) {
  using namespace ikebana;
  const auto maker = [&] { return Model(config); };
  const auto batch = [&] { return random_batch(config, shape...); };
  const Row plain = measure<Trainer<Model, AdamW>>(name, "AdamW", maker, batch);
  bool all = print(plain);

  using Full = Trainer<Model, AdamW, Checkpoint<ikebana::Full>>;
  Row full = measure<Full>(name, "AdamW, `Checkpoint<Full>`", maker, batch);
  full.without_checkpoint = plain.losses;
  all &= print(full);

  Row budget = measure_budget<Model>(name, (plain.training + full.training) / 2, maker, batch);
  budget.without_checkpoint = plain.losses;
  all &= print(budget);

  using Selective = Trainer<Model, AdamW, Checkpoint<ikebana::Selective>, Accumulate<2>>;
  Row selective =
      measure<Selective>(name, "AdamW, `Checkpoint<Selective>`, `Accumulate<2>`", maker, batch);
  selective.without_checkpoint = train<Trainer<Model, AdamW, Accumulate<2>>>(maker, batch).losses;
  all &= print(selective);

  using Mixed = Trainer<Model, AdamW, Precision<BF16>, EMA, ClipGradNorm>;
  return print(measure<Mixed>(name, "AdamW, BF16, EMA, ClipGradNorm", maker, batch)) && all;
}

}  // namespace bench
