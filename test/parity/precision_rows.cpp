// Defines rows of precisions beyond autocast. PyTorch has no class for some; the Python reference
// implements them from their description in precisions.py.
#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace precision_parts {

const AdamW adamw{.lr = 1e-2};
const CrossEntropyLoss loss;
const Precision<FP8> dynamic, delayed{.scaling = DelayedScaling{.amax_history_len = 4}};

/// It has 32 rows, so that FP8 applies to all layers. On a CPU its products are slow.
Work<nn::Sequential> even_mlp() {
  auto work = mlp_of(0);
  for (auto& parts : work.batches)
    parts = {{torch::randn({32, 16}), torch::randint(16, {32}, at::kLong)}};
  return work;
}

}  // namespace precision_parts

// clang-format off
std::vector<Row> precision_rows() {
  using namespace precision_parts;
  return {
      row("precision.weights.mlp", bits, mlp16, loss, adamw, Precision<BF16Weights>{}),
      row("precision.weights.conv", bits, conv, loss, adamw, Precision<BF16Weights>{},
          Accumulate<4>{}),
      row("precision.weights.gpt", bits, long_gpt, AdamW{}, Precision<BF16Weights>{},
          Checkpoint<Full>{}),
      row("precision.weights.wide", in_fp32, mlp16, loss, adamw,
          Precision<BF16Weights>{.cpu_products = wide}),
      row("precision.true.wide", in_fp32, mlp16, loss, adamw,
          Precision<BF16True>{.cpu_products = wide}),
      row("precision.true.mlp", bits, mlp16, loss, adamw, Precision<BF16True>{}),
      row("precision.true.conv", bits, conv, loss, SGD{.lr = 0.01, .momentum = 0.9},
          Precision<BF16True>{.seed = 7}),
      row("precision.fp8.mlp", bits, even_mlp, loss, adamw, dynamic),
      row("precision.fp8.delayed", bits, even_mlp, loss, adamw, delayed, Checkpoint<Full>{}),
  };
}
// clang-format on

}  // namespace parity
