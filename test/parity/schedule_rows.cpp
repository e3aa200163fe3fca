// Schedules, and schedules of schedules.
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

}  // namespace parity
