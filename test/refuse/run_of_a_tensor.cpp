// `RunTakesAModule<at::Tensor>` `run was given at::Tensor in the place of a module`
// `takes a module and then its arguments` `Write run(block, x)`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  auto sum = [](auto& run, auto& model, const Batch& batch) -> Loss {
    return {run(model, batch.input).sum(), batch.input.numel()};
  };
#else
  auto sum = [](auto& run, auto&, const Batch& batch) -> Loss {
    return {run(batch.input).sum(), batch.input.numel()};
  };
#endif
  Trainer trainer{Bare(), sum};
  trainer.step(Batch{});
}
