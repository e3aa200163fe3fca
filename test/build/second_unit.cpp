#include <ikebana.hpp>

// Compiled in both forms of the library, each of which is linked into one program.
#ifdef IKEBANA_COMPILED
namespace test::compiled_unit {
#else
namespace test::header_only_unit {
#endif
at::Tensor train();
at::Tensor train() {
  torch::manual_seed(0);
  torch::nn::Linear model(4, 1);
  ikebana::Trainer trainer{model, ikebana::MSELoss{}, ikebana::AdamW{.lr = 0.1}};
  for (int i = 0; i < 3; ++i)
    trainer.step({at::linspace(-1, 1, 32).view({8, 4}), at::linspace(0, 1, 8).view({8, 1})});
  return model->weight.detach().clone();
}
}
