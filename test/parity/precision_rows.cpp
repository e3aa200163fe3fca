// Precisions beyond autocast. What PyTorch has no class for, the twin spells out from the
// description: precisions.py.
#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace {

const AdamW adamw{.lr = 1e-2};
const CrossEntropyLoss loss;
const Precision<FP8> dynamic, delayed{.scaling = DelayedScaling{.amax_history_len = 4}};

}  // namespace

// clang-format off
std::vector<Row> precision_rows() {
  return {
      row("precision.weights.mlp", bits, mlp16, loss, adamw, Precision<BF16Weights>{}),
      row("precision.weights.conv", bits, conv, loss, adamw, Precision<BF16Weights>{},
          Accumulate<4>{}),
      row("precision.weights.gpt", bits, long_gpt, AdamW{}, Precision<BF16Weights>{},
          Checkpoint<Full>{}),
      row("precision.true.mlp", bits, mlp16, loss, adamw, Precision<BF16True>{}),
      row("precision.true.conv", bits, conv, loss, SGD{.lr = 0.01, .momentum = 0.9},
          Precision<BF16True>{.seed = 7}),
      row("precision.fp8.gpt", bits_with("widened attention"), gpt, AdamW{}, dynamic),
      row("precision.fp8.delayed", bits_with("widened attention"), gpt, AdamW{}, delayed,
          Checkpoint<Full>{}),
  };
}
// clang-format on

}  // namespace parity
