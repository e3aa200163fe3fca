// `RunIsNoModel<BareImpl>` `a run was used as BareImpl`
// `the first parameter of an objective is the run, and the second the model`
// `auto& run, auto& model`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  auto sum = [](auto&, auto& model, const Batch& batch) -> Loss {
    return {model->forward(batch.input).sum(), batch.input.numel()};
  };
#else
  auto sum = [](auto& model, auto&, const Batch& batch) -> Loss {
    return {model->forward(batch.input).sum(), batch.input.numel()};
  };
#endif
  Trainer trainer{Bare(), sum};
  trainer.step(Batch{});
}
