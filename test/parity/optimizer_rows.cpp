#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace optimizer_parts {

const CrossEntropyLoss loss;
const AdamW faster{.lr = 1e-2};
const LambdaLR inverse{.lr_lambda = [](std::int64_t s) { return 1 / (1 + 0.1 * double(s)); }};
const SparseAdam sparse{.lr = 1e-2, .otherwise = faster};

}  // namespace optimizer_parts

// clang-format off
std::vector<Row> optimizer_rows() {
  using namespace optimizer_parts;
  return {
      row("mlp.adagrad", bits, mlp16, loss, Adagrad{}),
      row("mlp.adagrad.fields", bits, mlp16, loss,
          Adagrad{.lr = 0.05, .lr_decay = 0.1, .weight_decay = 0.01,
                  .initial_accumulator_value = 0.5, .eps = 1e-6}),
      row("mlp.adagrad.fp16", bits, mlp16, loss, Adagrad{}, Precision<FP16>{}),
      row("mlp.adafactor", bits, mlp16, loss, Adafactor{}),
      row("mlp.adafactor.fields", bits, mlp16, loss,
          Adafactor{.lr = 0.05, .beta2_decay = -0.5, .eps = {1e-6, 1e-2}, .d = 2,
                    .weight_decay = 0.01}),
      row("mlp.adafactor.cosine", bits, mlp16, loss, Adafactor{},
          CosineAnnealingLR{.T_max = 15, .warmup_steps = 5}),
      row("conv.adafactor", bits, conv, loss, Adafactor{}),
      row("mlp.groups.values", bits, mlp16, loss,
          AdamW{.lr = 1e-2, .groups = {{.match = named("0.*"), .lr = 3e-3, .betas = {{0.8, 0.9}},
                                        .eps = 1e-5},
                                       no_decay()}}),
      row("mlp.groups.momentum", bits, mlp16, loss,
          SGD{.lr = 0.1, .groups = {{.match = named("*.weight"), .weight_decay = 0.1,
                                     .momentum = 0.9}}}),
      row("mlp.groups.schedule", bits, mlp16, loss,
          Adam{.lr = 1e-2, .groups = {{.match = named("4.*"), .lr = 0.02, .schedule = inverse}}}),
      row("gpt.muon", bits, gpt, Muon{.lr = 1e-2, .otherwise = faster}),
      row("gpt.muon.fields", bits, gpt,
          Muon{.weight_decay = 0, .momentum = 0.9, .nesterov = false,
               .ns_coefficients = {3, -3.2, 1.2}, .ns_steps = 4,
               .adjust_lr_fn = AdjustLR::MatchRMSAdamW}),
      row("bag.sparse_adam", bits, bag, loss, sparse),
      row("bag.sparse_adam.fields", bits, bag, loss,
          SparseAdam{.lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-6, .otherwise = faster}),
      row("bag.sparse_adam.accumulate", bits, bag, loss, sparse, Accumulate<5>{}),
      row("bag.sparse_adam.ragged", bits, ragged<bag>, loss, sparse),
      row("bag.sparse_adam.fp16", bits, bag, loss, sparse,
          Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}),
  };
}
// clang-format on

}  // namespace parity
