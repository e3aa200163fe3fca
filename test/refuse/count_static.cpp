// `CountTakesOtherArguments<StaticCount, Batch>`
// `count of StaticCount cannot be called with Batch`
// `a count takes other arguments than this batch`
#include "net.hpp"

struct StaticCount {
  template <class Run>
  Loss operator()(Run& run, Bare& model, const Batch& batch) {
    return {run(model, batch.input).sum(), batch.input.numel()};
  }
#ifdef COUNTERPART
  static Count count(const Batch& batch) { return batch.input.numel(); }
#else
  static Count count(const torch::Tensor& input) { return input.numel(); }
#endif
};

int main() {
  Trainer trainer{Bare(), StaticCount{}};
  trainer.step(Batch{});
}
