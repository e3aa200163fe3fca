// `LossOfTorch<torch::nn::HingeEmbeddingLoss>`
// `torch::nn::HingeEmbeddingLoss is a loss of LibTorch, and there is no policy for it`
// `this one has no policy of its name` `Write the objective as a lambda`
#include "net.hpp"

int main() {
#ifdef COUNTERPART
  auto hinge = [loss = torch::nn::HingeEmbeddingLoss()](auto& run, auto& model,
                                                        const Batch& batch) mutable -> Loss {
    return {loss(run(model, batch.input), batch.target).sum(), batch.input.numel()};
  };
  Trainer trainer{Bare(), hinge};
#else
  Trainer trainer{Bare(), torch::nn::HingeEmbeddingLoss()};
#endif
  trainer.step(Batch{});
}
