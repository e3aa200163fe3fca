// `BudgetBelowOne<Checkpoint<Budget<-8>>>` `Checkpoint<Budget<-8>> has a budget below 1 byte`
// `in bytes, and must be 1 or more` `Write e.g. Checkpoint<Budget<GiB(8)>>` `{.bytes = GiB(8)}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  Trainer<Net, Checkpoint<Budget<MiB(8)>>> trainer{Net()};
#else
  Trainer<Net, Checkpoint<Budget<-8>>> trainer{Net()};
#endif
  trainer.step(Batch{});
}
