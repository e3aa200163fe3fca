// `TensorsOutOfSight<WithDict>` `WithDict holds a c10::Dict, c10::List or IValue`
// `are not` `Write std::map<std::string, at::Tensor>`
#include "net.hpp"

struct WithDict {
  torch::Tensor input, target;
#ifdef COUNTERPART
  std::map<std::string, torch::Tensor> others;
#else
  std::vector<c10::Dict<std::string, torch::Tensor> > others;
#endif
};

int main() {
  auto objective = [](auto& run, auto& model, const WithDict& batch) -> Loss {
    return {at::mse_loss(run(model, batch.input), batch.target, at::Reduction::Sum),
            batch.target.numel()};
  };
  Trainer trainer{Bare(), objective};
  trainer.step(WithDict{});
}
