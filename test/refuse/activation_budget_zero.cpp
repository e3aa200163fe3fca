// `BudgetBelowOne<Checkpoint<ActivationBudget<0>>>` `has a budget below 1 byte`
// `in bytes, and must be 1 or more` `Write e.g. Checkpoint<Budget<GiB(8)>>`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<ActivationBudget<>>> trainer(Net(), Checkpoint<ActivationBudget<>>{1});
#else
  Trainer<Net, Checkpoint<ActivationBudget<0>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
