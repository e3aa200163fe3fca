// `NotALoss<at::Tensor>` `a loss returns at::Tensor, which has no count` `must come with the count`
// `Return Loss{sum, count}`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  auto sum = [](auto& run, auto& model, const Batch& batch) {
    return Loss{run(model, batch.input).sum(), batch.input.numel()};
  };
  Trainer trainer{Bare(), sum};
#else
  auto mean = [](auto& run, auto& model, const Batch& batch) {
    return run(model, batch.input).mean();
  };
  Trainer trainer{Bare(), mean};
#endif
  trainer.step(Batch{});
}
