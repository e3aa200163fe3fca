// `CountTakesOtherArguments<Sums, Batch>`
// `count of Sums cannot be called with Batch`
// `a count takes other arguments than this batch` `Count count(const Batch& batch)`
#include "net.hpp"

struct Sums {
  template <class Run>
  Loss operator()(Run& run, Bare& model, const Batch& batch) {
    return {run(model, batch.input).sum(), batch.input.numel()};
  }
#ifdef COUNTERPART
  Count count(const Batch& batch) { return batch.input.numel(); }
#else
  Count count(Batch& batch) { return batch.input.numel(); }
#endif
};

int main() {
  Trainer trainer{Bare(), Sums{}};
  trainer.step(Batch{});
}
