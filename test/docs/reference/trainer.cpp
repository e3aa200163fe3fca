// Examples of the reference: the trainer.
#include "../classes.hpp"

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

}  // namespace test::reference_trainer
