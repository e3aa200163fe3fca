// Compiles and runs the code that docs/precision.md shows.
#include <iostream>

#include "guarantees/guarantees.hpp"

namespace guarantees::precision_page {

struct NetImpl : torch::nn::Module {
  torch::nn::Linear in{16, 32}, out{32, 16};
  torch::nn::LayerNorm norm{torch::nn::LayerNormOptions({32})};
  NetImpl() {
    register_module("in", in), register_module("out", out), register_module("norm", norm);
  }
  at::Tensor forward(at::Tensor x) { return out(at::gelu(norm(in(x)))); }
};
TORCH_MODULE(Net);

TEST_CASE("docs/precision.md: a recipe says how a CPU multiplies") {
  Trainer trainer{Net(), AdamW{}, CrossEntropyLoss{}, Precision<BF16>{}};
  std::cout << trainer.describe();  // Precision<BF16>  {..., products in Float32, rounded ...}
  Precision<BF16> native{.cpu_products = CPUProducts::Native};  // LibTorch's kernels, as in Python
  Trainer as_python{Net(), AdamW{}, CrossEntropyLoss{}, native};
  CHECK(test::contains(as_python.describe(), "products by LibTorch's kernels for it"));
}

TEST_CASE("docs/precision.md: every precision trains the same model") {
  torch::manual_seed(0);
  Rows batch{torch::randn({32, 16}), torch::randint(16, {32}, at::kLong)};
  auto train = [&](auto trainer) { return trainer.step(batch).loss(); };

  // FP32 master weights with BF16 parameters; no master weights; linear layers in FP8.
  train(Trainer{Net(), AdamW{.lr = 3e-4}, CrossEntropyLoss{}, Precision<BF16Weights>{}});
  train(Trainer{Net(), AdamW{.lr = 3e-4}, CrossEntropyLoss{}, Precision<BF16True>{.seed = 1}});
  train(Trainer{Net(), AdamW{.lr = 3e-4}, CrossEntropyLoss{},
                Precision<FP8>{.scaling = DelayedScaling{.amax_history_len = 16}}});

  // Only norms stay in FP32; by default biases do as well.
  Trainer trainer{Net(), CrossEntropyLoss{}, Precision<BF16Weights>{.keep_fp32 = named("*norm*")}};

  CHECK((trainer.model()->in->bias.scalar_type() == at::kBFloat16));
  CHECK((trainer.model()->norm->bias.scalar_type() == at::kFloat));
}

}  // namespace guarantees::precision_page
