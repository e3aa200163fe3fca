// `OtherBatches<std::vector<int`
// `does not hold batches of type Batch` `the Batch of an AnyTrainer<Batch>`
// `Give it batches of that type`
#include "net.hpp"

void train(AnyTrainer<Batch>& trainer) {
#ifdef COUNTERPART
  trainer.fit(std::vector<Batch>());
#else
  trainer.fit(std::vector<int>());
#endif
}
int main() { return 0; }
