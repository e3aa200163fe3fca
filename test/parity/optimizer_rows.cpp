// Defines rows of optimizers, of ikebana and of torch::optim.
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
      row("mlp.in_backward", bits, mlp16, loss, InBackward<AdamW>{faster},
          CosineAnnealingLR{.T_max = 15}),
  };
}
// clang-format on

namespace torch_optim_parts {

const CrossEntropyLoss loss;
const Precision<FP16> half{.init_scale = 1 << 24, .growth_interval = 3};
const CosineAnnealingLR cosine{.T_max = 15, .warmup_steps = 5};

}  // namespace torch_optim_parts

// clang-format off
std::vector<Row> torch_optim_rows() {
  using namespace torch_optim_parts;
  return {
      row("mlp.rmsprop", bits, mlp16, loss, RMSprop{}),
      row("mlp.rmsprop.fields", bits, mlp16, loss,
          RMSprop{.lr = 3e-3, .alpha = 0.9, .eps = 1e-6, .weight_decay = 0.01, .momentum = 0.8,
                  .centered = true}),
      row("mlp.rmsprop.fp16", bits, mlp16, loss, RMSprop{}, half),
      row("mlp.nadam", bits, mlp16, loss, NAdam{}),
      row("mlp.nadam.fields", bits, mlp16, loss,
          NAdam{.lr = 5e-3, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.1,
                .momentum_decay = 0.1, .decoupled_weight_decay = true}),
      row("mlp.nadam.fp16", bits, mlp16, loss, NAdam{.weight_decay = 0.01}, half),
      row("mlp.radam", bits, mlp16, loss, RAdam{}),
      row("mlp.radam.fields", bits, mlp16, loss,
          RAdam{.lr = 5e-3, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.1,
                .decoupled_weight_decay = true}),
      row("mlp.radam.fp16", bits, mlp16, loss, RAdam{.weight_decay = 0.01}, half),
      row("mlp.adamax", bits, mlp16, loss, Adamax{}),
      row("mlp.adamax.fields", bits, mlp16, loss,
          Adamax{.lr = 5e-3, .betas = {0.8, 0.95}, .eps = 1e-6, .weight_decay = 0.01},
          cosine),
      row("mlp.adamax.fp16", bits, mlp16, loss, Adamax{}, half),
      row("mlp.adadelta", bits, mlp16, loss, Adadelta{}),
      row("mlp.adadelta.fields", bits, mlp16, loss,
          Adadelta{.lr = 0.5, .rho = 0.8, .eps = 1e-4, .weight_decay = 0.01}),
      row("mlp.adadelta.fp16", bits, mlp16, loss, Adadelta{}, half),
      row("mlp.asgd", bits, mlp16, loss, ASGD{}),
      row("mlp.asgd.fields", bits, mlp16, loss,
          ASGD{.lr = 0.1, .lambd = 0.01, .alpha = 0.5, .t0 = 3, .weight_decay = 0.01},
          cosine),
      row("mlp.asgd.fp16", bits, mlp16, loss, ASGD{.lr = 0.1}, half),
      row("mlp.rprop", bits, mlp16, loss, Rprop{.lr = 1e-3}),
      row("mlp.rprop.fields", bits, mlp16, loss,
          Rprop{.lr = 1e-3, .etas = {0.3, 1.1}, .step_sizes = {1e-5, 2e-3}}),
      row("mlp.rprop.fp16", bits, mlp16, loss, Rprop{.lr = 1e-3}, half),
  };
}
// clang-format on

}  // namespace parity
