// Defines rows of schedules, schedules of schedules, objectives, averages and frozen parameters.
#include "table.hpp"
#include "work.hpp"

namespace parity {

namespace schedule_parts {

const SGD sgd{.lr = 0.1};
const CrossEntropyLoss loss;

const OneCycleLR one_cycle{.total_steps = 20, .cycle_momentum = false};
OneCycleLR three_phases() {
  OneCycleLR other{.epochs = 4, .steps_per_epoch = 5, .pct_start = 0.4};
  other.anneal_strategy = OneCycleLR::linear, other.three_phase = true;
  other.cycle_momentum = false, other.div_factor = 5, other.final_div_factor = 100;
  return other;
}
CyclicLR cyclic(CyclicLR::Mode mode) {
  CyclicLR cycles{.max_lr = 0.5, .step_size_up = 3, .step_size_down = 4, .mode = mode};
  cycles.gamma = 0.9, cycles.cycle_momentum = false;
  return cycles;
}
const SequentialLR<LinearLR, CosineAnnealingLR, ExponentialLR> sequential{
    .schedules = {{.start_factor = 0.2, .total_iters = 4},
                  {.T_max = 7, .eta_min = 1e-3},
                  {.gamma = 0.8}},
    .milestones = {5, 13}};
const ChainedScheduler<ConstantLR, ExponentialLR, MultiStepLR> chained{
    .schedules = {
        {.factor = 0.5, .total_iters = 6}, {.gamma = 0.9}, {.milestones = {8, 14}, .gamma = 0.5}}};
CyclicLR cyclic_betas() {
  CyclicLR cycles = cyclic(CyclicLR::triangular);
  cycles.max_lr = 3e-2, cycles.cycle_momentum = true, cycles.base_momentum = 0.5;
  return cycles;
}
const PerEpoch<StepLR> per_epoch{.schedule = {.step_size = 2, .gamma = 0.3}};

}  // namespace schedule_parts

// clang-format off
std::vector<Row> schedule_rows() {
  using namespace schedule_parts;
  return {
      row("mlp.exponential", bits, mlp16, loss, sgd, ExponentialLR{.gamma = 0.9}),
      row("mlp.multi_step", bits, mlp16, loss, sgd,
          MultiStepLR{.milestones = {4, 9, 9, 15}, .gamma = 0.3}),
      row("mlp.polynomial", bits, mlp16, loss, sgd, PolynomialLR{.total_iters = 15, .power = 1.5}),
      row("mlp.restarts", bits, mlp16, loss, sgd,
          CosineAnnealingWarmRestarts{.T_0 = 3, .T_mult = 2, .eta_min = 1e-3}),
      row("mlp.one_cycle", bits, mlp16, loss, sgd, one_cycle),
      row("mlp.one_cycle.three_phases", bits, mlp16, loss, sgd, three_phases()),
      row("mlp.cyclic", bits, mlp16, loss, sgd, cyclic(CyclicLR::triangular)),
      row("mlp.cyclic.triangular2", bits, mlp16, loss, sgd, cyclic(CyclicLR::triangular2)),
      row("mlp.cyclic.exp_range", bits, mlp16, loss, sgd, cyclic(CyclicLR::exp_range)),
      row("mlp.one_cycle.momentum", bits, mlp16, loss, SGD{.lr = 0.1, .momentum = 0.9},
          OneCycleLR{.total_steps = 20}),
      row("mlp.cyclic.betas", bits, mlp16, loss, AdamW{.lr = 1e-2}, cyclic_betas()),
      row("mlp.sequential", bits, mlp16, loss, sgd, sequential),
      row("mlp.chained", bits, mlp16, loss, sgd, chained),
      row("mlp.per_epoch", bits, mlp16, loss, sgd, per_epoch),
  };
}
// clang-format on

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
