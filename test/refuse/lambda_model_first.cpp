// `ObjectiveTakesOtherArguments<` `cannot be called with a run, the model and Batch`
// `cannot be called with a run, the model and this batch`
// `auto& run, auto& model, const Batch& batch`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  auto sum = [](auto& run, Bare& model, const Batch& batch) -> Loss {
    return {run(model, batch.input).sum(), batch.input.numel()};
  };
#else
  auto sum = [](Bare& model, auto& run, const Batch& batch) -> Loss {
    return {run(model, batch.input).sum(), batch.input.numel()};
  };
#endif
  Trainer trainer{Bare(), sum};
  trainer.step(Batch{});
}
