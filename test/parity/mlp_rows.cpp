#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace mlp_parts {

const AdamW adamw{.lr = 1e-2};
const SGD sgd{.lr = 0.1};
const ClipGradNorm clip{.max_norm = 0.2};
const ClipGradValue clip_value{.clip_value = 0.02};
const CrossEntropyLoss loss, smoothing{.label_smoothing = 0.1};

const Agreement other_clip{1e-5, 1e-4,
                           "the norm divides within the update; Python multiplies before it"};
const Agreement other_half_clip{1e-2, 1e-2, other_clip.reason};
const Agreement other_mean{1e-5, 1e-4,
                           "the loss is a sum that is divided; Python divides its two parts"};

}  // namespace mlp_parts

// clang-format off
std::vector<Row> mlp_rows() {
  using namespace mlp_parts;
  return {
      row("mlp.fp32", bits, mlp16, loss, adamw, Precision<FP32>{}),
      row("mlp.tf32", bits, mlp16, loss, adamw, Precision<TF32>{}),
      row("mlp.bf16", bits, mlp16, loss, adamw, Precision<BF16>{}),
      row("mlp.fp16", bits, mlp16, loss, adamw,
          Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}),
      row("mlp.bf16.wide", in_fp32, mlp16, loss, adamw, Precision<BF16>{.cpu_products = wide}),
      row("mlp.fp16.wide", in_fp32, mlp16, loss, adamw,
          Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3, .cpu_products = wide}),
      row("mlp.dropout", bits, dropping_mlp, loss, adamw),
      row("mlp.dropout.checkpoint", bits, dropping_mlp, loss, adamw, Checkpoint<Full>{}),
      row("mlp.mse", bits, fitting_mlp, MSELoss{}, adamw),
      row("mlp.smoothing", other_mean, mlp16, smoothing, adamw),
      row("mlp.smoothing.sum", bits_with("a sum that is divided"), mlp16, smoothing, adamw),
      row("mlp.adamw.defaults", bits, mlp16, loss),
      row("mlp.adamw.fields", bits, mlp16, loss,
          AdamW{.lr = 1e-2, .betas = {0.8, 0.95}, .eps = 1e-6, .amsgrad = true}),
      row("mlp.adam", bits, mlp16, loss, Adam{.lr = 1e-2, .weight_decay = 0.01}),
      row("mlp.sgd", bits, mlp16, loss, sgd),
      row("mlp.sgd.momentum", bits, mlp16, loss, SGD{.lr = 0.1, .momentum = 0.9, .dampening = .5}),
      row("mlp.sgd.nesterov", bits, mlp16, loss,
          SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}),
      row("mlp.constant", bits, mlp16, loss, sgd, ConstantLR{.factor = 0.3, .total_iters = 7}),
      row("mlp.linear", bits, mlp16, loss, sgd, LinearLR{.end_factor = 0.1, .total_iters = 13}),
      row("mlp.cosine", bits, mlp16, loss, sgd, CosineAnnealingLR{.T_max = 12, .eta_min = 1e-3}),
      row("mlp.warmup", bits, mlp16, loss, sgd, CosineAnnealingLR{.T_max = 15, .warmup_steps = 5}),
      row("mlp.clip", other_clip, mlp16, loss, sgd, clip),
      row("mlp.clip.fp16", other_half_clip, mlp16, loss, sgd, clip, Precision<FP16>{}),
      row("mlp.clip_value", bits, mlp16, loss, sgd, clip_value),
      row("mlp.clip_value.fp16", bits, mlp16, loss, sgd, clip_value,
          Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}),
      row("mlp.clip_value.clip", bits_with("clipping by division"), mlp16, loss, sgd, clip_value,
          clip),
      row("mlp.clip.clip_value", bits_with("clipping by division"), mlp16, loss, sgd, clip,
          clip_value),
      row("mlp.clip.division", bits_with("clipping by division"), mlp16, loss, sgd, clip),
  };
}
// clang-format on

}  // namespace parity
