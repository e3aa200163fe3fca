// Examples of the reference: trainers with a recipe known to the compiler, or chosen at run time.
#include "../classes.hpp"

#include <ikebana/any_trainer/recipes.hpp>

namespace test::reference_trainer {

using namespace policies;

TEST_CASE("reference: Trainer") {
  auto model = net();
  auto loader = classes(4);
  // example: Trainer
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, ClipGradNorm{.max_norm = 1}};
  for (const auto& batch : loader) {
    Report report = trainer.step(batch);
    if (report.loss() > 100) break;
  }
  double loss = trainer.evaluate(loader).loss;
  // end
  CHECK(trainer.steps() == 4);
  CHECK(loss > 0);
}

TEST_CASE("reference: what a trainer does besides steps") {
  auto loader = classes(4), held_out = classes(2);
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 1e-3}, EMA{.decay = 0.9}};
  // example: Trainer::fit
  History history = trainer.fit(loader, {.epochs = 3, .validate = held_out});
  double last = history.back().validation->loss;
  // end
  CHECK((history.size() == 3 && last > 0));

  // example: Trainer::evaluate
  Evaluation found = trainer.evaluate(held_out, Accuracy{});
  double accuracy = found["accuracy"];
  // end
  CHECK((accuracy >= 0 && accuracy <= 1));

  // example: Trainer::get
  trainer.get<AdamW>().lr = 1e-4;  // holds from the next step on
  // end
  CHECK(trainer.step(loader[0]).learning_rate == 1e-4);

  // example: Trainer::state, Trainer::restore
  StateDict before = trainer.state();
  trainer.step(loader[0]);
  trainer.restore(before);  // the same bits as before the step
  // end
  CHECK(trainer.state().at("0.weight").equal(before.at("0.weight")));

  // example: Trainer::with_full_weights, FullWeightOptions
  auto use = [](const nn::Sequential& model) { CHECK(model->parameters()[0].size(0) == 16); };
  trainer.with_full_weights(use);                      // the weights that are trained
  trainer.with_full_weights(use, {.averaged = true});  // the weights that `evaluate` uses
  // end

  // example: Trainer::restore_model
  nn::Sequential model = trainer.restore_model();  // the trainer has ended
  // end
  CHECK(model->parameters().size() == 4);
  CHECK_THROWS_AS(trainer.step(loader[0]), Error);
}

TEST_CASE("reference: AnyTrainer and Recipes") {
  auto loader = classes(4);
  // example: AnyTrainer, Recipes
  Recipes<Rows, double> recipes;
  recipes.add("plain", [](double lr) -> AnyTrainer<Rows> {
    return Trainer{net(), CrossEntropyLoss{}, AdamW{.lr = lr}};
  });
  recipes.add("averaged", [](double lr) -> AnyTrainer<Rows> {
    return Trainer{net(), CrossEntropyLoss{}, AdamW{.lr = lr}, EMA{.decay = 0.99}};
  });

  AnyTrainer<Rows> trainer = recipes.make("averaged", 1e-3);  // a name of the command line
  for (const Rows& batch : loader) trainer.step(batch);
  if (EMA* average = trainer.get_if<EMA>()) average->decay = 0.999;
  // end
  CHECK(trainer.steps() == 4);
  CHECK(trainer.get_if<EMA>()->decay == 0.999);
  CHECK_THROWS_AS(recipes.make("other", 1e-3), BadValue);
}

}  // namespace test::reference_trainer
