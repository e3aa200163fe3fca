// `ObjectiveTakesOtherArguments<` `cannot be called with a run, the model and Batch`
// `cannot be called with a run, the model and this batch`
// `auto& run, auto& model, const Batch& batch`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  auto sum = [](auto& run, auto& model, const Batch& batch) -> Loss {
    return {run(model, batch.input).sum(), batch.input.numel()};
  };
  Trainer trainer{Bare(), sum};
#else
  auto sum = [](auto&, const Batch& batch) -> Loss {
    return {batch.input.sum(), batch.input.numel()};
  };
  Trainer trainer{Bare(), sum};
#endif
  trainer.step(Batch{});
}
