// The compiler: `no member named 'imput'`, once: the objective's own parameters are right, and no
// other type of run or of batch is tried.
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  auto sum = [](auto& run, auto& model, const auto& batch) {
    return Loss{run(model, batch.input).sum(), batch.input.numel()};
  };
#else
  auto sum = [](auto& run, auto& model, const auto& batch) {
    return Loss{run(model, batch.imput).sum(), batch.target.numel()};
  };
#endif
  Trainer trainer{Bare(), sum};
  trainer.step(Batch{});
}
