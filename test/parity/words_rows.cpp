// Schedules, objectives, averages and frozen parameters.
#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace words_parts {

const AdamW adamw{.lr = 1e-2};
const SGD sgd{.lr = 0.1};
const CrossEntropyLoss loss;
const BCEWithLogitsLoss bce;
const StepLR halves{.step_size = 4, .gamma = 0.5};
const WarmupStableDecayLR wsd{
    .warmup_steps = 3, .stable_steps = 6, .decay_steps = 8, .eta_min = 1e-3};
const ReduceLROnPlateau plateau{.factor = 0.5, .patience = 1, .threshold = 1e-2, .min_lr = 0.02};
const EMA ema{.decay = 0.9};
const SWA swa{.start_step = 5, .every_steps = 4};

const Agreement other_quotient{
    1e-5, 1e-4, "each gradient is multiplied by 1 / count; Python divides it by the count"};
const Agreement other_mean_of_weights{
    1e-5, 1e-4, "on a CPU Python divides by the number of averages; lerp multiplies"};
const Agreement lerped = bits_with("get_swa_multi_avg_fn");
const Agreement divided_sum = bits_with("a sum that is divided");

WarmupStableDecayLR falling(DecayForm form) {
  WarmupStableDecayLR other = wsd;
  other.decay = form;
  return other;
}
LambdaLR wavy(std::int64_t warmup_steps = 0) {
  auto wave = [](std::int64_t step) { return 1 + 0.5 * std::sin(static_cast<double>(step)); };
  return {.lr_lambda = wave, .warmup_steps = warmup_steps};
}
ReduceLROnPlateau rising() {
  ReduceLROnPlateau other{.mode = ReduceLROnPlateau::max, .patience = 0, .threshold = 0.01};
  other.factor = 0.7, other.threshold_mode = ReduceLROnPlateau::abs, other.cooldown = 2;
  return other;
}

/// Targets are probabilities of each of the outputs.
Work<nn::Sequential> probable() {
  auto work = mlp_of(0);
  for (auto& parts : work.batches) parts[0].target = torch::rand({24, 16});
  return work;
}
/// Targets are distributions; the model gives log-probabilities.
Work<nn::Sequential> distributed_as(bool log_target) {
  auto work = mlp_of(0);
  work.net = "{\"MLP\":{\"width\":16,\"log_softmax\":true}}";
  work.model->push_back(nn::LogSoftmax(-1));
  for (auto& parts : work.batches) {
    at::Tensor log = torch::randn({24, 16}).log_softmax(1);
    parts[0].target = log_target ? log : log.exp();
  }
  return work;
}
Work<nn::Sequential> distributed() { return distributed_as(false); }
Work<nn::Sequential> log_distributed() { return distributed_as(true); }

}  // namespace words_parts

// clang-format off
std::vector<Row> average_rows() {
  using namespace words_parts;
  return {
      row("mlp.ema", bits, mlp16, loss, adamw, ema),
      row("mlp.ema.fp16", bits, mlp16, loss, adamw, ema,
          Precision<FP16>{.init_scale = 1 << 24, .growth_interval = 3}),
      row("conv.ema", bits, conv, loss, adamw, ema),
      row("conv.ema.buffers", bits_with("counters copied"), conv, loss, adamw,
          EMA{.decay = 0.9, .use_buffers = true}),
      row("mlp.ema.initial", bits, mlp16, loss, adamw,
          EMA{.decay = 0.9, .from_initial_weights = true}),
      row("mlp.ema.warmup", bits, mlp16, loss, adamw, EMA{.decay = 0.6, .warmup = true}),
      row("mlp.ema.initial.warmup", bits, mlp16, loss, adamw,
          EMA{.decay = 0.6, .from_initial_weights = true, .warmup = true}),
      row("mlp.swa", other_mean_of_weights, mlp16, loss, adamw, swa),
      row("mlp.swa.lerp", lerped, mlp16, loss, adamw, swa),
      row("mlp.swa.every", lerped, mlp16, loss, adamw, SWA{}, halves),
      row("conv.swa", lerped, conv, loss, adamw, swa),
      row("conv.swa.buffers", other_mean_of_weights, conv, loss, adamw,
          SWA{.start_step = 5, .every_steps = 4, .use_buffers = true}),
  };
}
std::vector<Row> words_rows() {
  using namespace words_parts;
  std::vector<Row> rows{
      row("mlp.step", bits, mlp16, loss, sgd, halves),
      row("mlp.wsd.sqrt", bits, mlp16, loss, sgd, wsd),
      row("mlp.wsd.linear", bits, mlp16, loss, sgd, falling(DecayForm::Linear)),
      row("mlp.wsd.cosine", bits, mlp16, loss, sgd, falling(DecayForm::Cosine)),
      row("mlp.lambda", bits, mlp16, loss, sgd, wavy()),
      row("mlp.lambda.warmup", bits, mlp16, loss, sgd, wavy(4)),
      row("mlp.plateau", bits, mlp16, loss, sgd, plateau),
      row("mlp.plateau.max", bits, mlp16, loss, sgd, rising()),
      row("mlp.bce", other_quotient, probable, bce, adamw),
      row("mlp.bce.sum", divided_sum, probable, bce, adamw),
      row("mlp.bce.accumulate", bits, probable, bce, adamw, Accumulate<5>{}),
      row("mlp.bce.weights", divided_sum, probable,
          BCEWithLogitsLoss{.weight = torch::linspace(0.5, 2, 16),
                            .pos_weight = torch::linspace(3, 0.25, 16)}, adamw),
      row("mlp.kl", bits, distributed, KLDivLoss{}, adamw),
      row("mlp.kl.log", bits, log_distributed, KLDivLoss{.log_target = true}, adamw),
      row("mlp.kl.accumulate", bits, distributed, KLDivLoss{}, adamw, Accumulate<5>{}),
      row("mlp.freeze", bits, mlp16, loss, adamw, Freeze<>{.match = named("0.*")}),
      row("gpt.freeze", bits, gpt, adamw, Freeze<Block>{}, Checkpoint<Full>{}),
      row("gpt.freeze.ema", bits, gpt, adamw, Freeze<Block>{}, ema),
  };
  for (const Row& row : average_rows()) rows.push_back(row);
  return rows;
}
// clang-format on

}  // namespace parity
