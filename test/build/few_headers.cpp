// Compiles a recipe whose file includes the headers of what it uses, and no others.
// bench/compile_time.py compiles it with all headers, too.
#include <torch/nn/modules/linear.h>

#include <ikebana/average/ema.hpp>
#include <ikebana/checkpoint/selective.hpp>
#include <ikebana/clip/clip_grad_norm.hpp>
#include <ikebana/data/loader.hpp>
#include <ikebana/data/tensor_dataset.hpp>
#include <ikebana/objective/cross_entropy.hpp>
#include <ikebana/optimizer/adamw.hpp>
#include <ikebana/precision/bf16.hpp>
#include <ikebana/schedule/cosine_annealing.hpp>
#include <ikebana/trainer.hpp>

using namespace ikebana;
namespace nn = torch::nn;

struct NetImpl : nn::Module {
  using units = Units<nn::Linear>;
  nn::Linear first = register_module("first", nn::Linear(4, 32));
  nn::Linear second = register_module("second", nn::Linear(32, 2));
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return run(second, run(first, x).relu());
  }
};
TORCH_MODULE(Net);

int main() {
  Trainer trainer{Net(),
                  CrossEntropyLoss{},
                  AdamW{.lr = 1e-2},
                  Precision<BF16>{},
                  Checkpoint<Selective>{},
                  Accumulate<4>{},
                  EMA{},
                  ClipGradNorm{},
                  CosineAnnealingLR{.T_max = 10}};
  const at::Tensor input = at::randn({64, 4});
  TensorDataset data{input, input.select(1, 0).gt(0).to(at::kLong)};
  const History history = trainer.fit(DataLoader(data, {.batch_size = 16}), {.epochs = 3});
  return history.size() == 3 && history.back().loss < history.front().loss ? 0 : 1;
}
