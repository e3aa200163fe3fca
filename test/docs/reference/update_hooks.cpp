// Examples of the reference: hooks of batches, of the loss and of the update, by policies of one's
// own.
#include "policies.hpp"

// example: Mechanism, ClipHooks, axis::clip, StepGradients, elements_of, Tensors
struct ScaleGradients {  // a policy, as users write it
  using axis = ikebana::axis::clip;
  double by = 0.5;
};
template <>
struct ikebana::Mechanism<ScaleGradients> : ikebana::ClipHooks {
  ScaleGradients values;
  explicit Mechanism(ScaleGradients v) : values(v) {}
  template <class Ranks>
  void clip(StepGradients& gradients, Ranks&) {
    for (const at::Tensor& gradient : gradients.values) elements_of(gradient).mul_(values.by);
  }
};
// end

// example: AccumulateHooks, axis::accumulate
struct RowsOf {
  using axis = ikebana::axis::accumulate;
  std::int64_t microbatches = 3;
};
template <>
struct ikebana::Mechanism<RowsOf> : ikebana::AccumulateHooks {
  RowsOf values;
  explicit Mechanism(RowsOf v) : values(v) {}
  template <class Batch>
  std::vector<Batch> split(const Batch& batch) {
    return ikebana::split(batch, values.microbatches);
  }
};
// end

// example: ObjectiveHooks, axis::objective
struct SquaredError {
  using axis = ikebana::axis::objective;
};
template <>
struct ikebana::Mechanism<SquaredError> : ikebana::ObjectiveHooks {
  SquaredError values;
  explicit Mechanism(SquaredError v) : values(v) {}
  template <class Run, class Model, class Batch>
  Loss loss(Run& run, Model& model, const Batch& batch) {
    at::Tensor error = run(model, batch.input) - at::one_hot(batch.target, 3);
    return {.sum = error.square().sum(), .count = error.numel()};
  }
};
// end

// example: OptimizerHooks, Masters, axis::optimizer
struct GradientDescent {
  using axis = ikebana::axis::optimizer;
  double lr = 0.1;
};
template <>
struct ikebana::Mechanism<GradientDescent> : ikebana::OptimizerHooks {
  GradientDescent values;
  double lr = 0;
  explicit Mechanism(GradientDescent v) : values(v) {}
  double base_lr() const { return values.lr; }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate& rate) {
    lr = rate(values.lr);
  }
  void update(const Masters& masters, StepGradients& gradients) {
    for (std::size_t k = 0; k < gradients.values.size(); ++k)
      masters.values[gradients.indices[k]].sub_(gradients.values[k], lr);
  }
};
// end

// example: ScheduleHooks, axis::schedule
struct HalfAfter {
  using axis = ikebana::axis::schedule;
  std::int64_t steps = 1000;
};
template <>
struct ikebana::Mechanism<HalfAfter> : ikebana::ScheduleHooks {
  HalfAfter values;
  explicit Mechanism(HalfAfter v) : values(v) {}
  double rate(double base, std::int64_t step) const {
    return step < values.steps ? base : base / 2;
  }
};
// end

// example: AverageHooks, axis::average
struct CountEvaluations {
  using axis = ikebana::axis::average;
};
template <>
struct ikebana::Mechanism<CountEvaluations> : ikebana::AverageHooks {
  CountEvaluations values;
  std::int64_t evaluations = 0;
  explicit Mechanism(CountEvaluations v) : values(v) {}
  template <class Parameters, class Next>
  decltype(auto) around_evaluation(Parameters&, Next&& next) {
    ++evaluations;
    return next();
  }
  void restart() noexcept {}
};
// end

// example: FreezeHooks, axis::freeze
struct FreezeBiases {
  using axis = ikebana::axis::freeze;
};
template <>
struct ikebana::Mechanism<FreezeBiases> : ikebana::FreezeHooks {
  FreezeBiases values;
  explicit Mechanism(FreezeBiases v) : values(v) {}
  void freeze(const UnitTable& table) {
    for (const Unit& unit : table.units())
      for (const at::Tensor& parameter : unit.parameters)
        if (parameter.dim() < 2) parameter.requires_grad_(false);
  }
};
// end

// example: DeviceHooks, axis::device
struct CountBatches {
  using axis = ikebana::axis::device;
};
template <>
struct ikebana::Mechanism<CountBatches> : ikebana::DeviceHooks {
  CountBatches values;
  std::int64_t batches = 0;
  explicit Mechanism(CountBatches v) : values(v) {}
  template <class Batch>
  Batch place(const Batch& batch, c10::Device device) {
    ++batches;
    return DeviceHooks::place(batch, device);  // moves its tensors
  }
};
// end

// example: LayoutHooks, axis::layout
struct Contiguous {
  using axis = ikebana::axis::layout;
};
template <>
struct ikebana::Mechanism<Contiguous> : ikebana::LayoutHooks {
  Contiguous values;
  explicit Mechanism(Contiguous v) : values(v) {}
  template <class Batch>
  Batch place(Batch batch, c10::Device) {
    batch.input = batch.input.contiguous();
    return batch;
  }
};
// end

// example: Hooks, axis::own
struct constraint : ikebana::axis::own {};  // an axis that the library does not have
struct AtMost {
  using axis = constraint;
  double max = 0.2;
};
template <>
struct ikebana::Mechanism<AtMost> : ikebana::Hooks {
  AtMost values;
  explicit Mechanism(AtMost v) : values(v) {}
  void after_update(const Masters& masters, const StepGradients&) noexcept {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& weight : masters.values) weight.clamp_(-values.max, values.max);
  }
};
// end

namespace test::reference::update_hooks {

TEST_CASE_FIXTURE(Small, "reference: hooks of batches, of the loss and of the update") {
  Trainer trainer{
      model,        RowsOf{},           ScaleGradients{}, SquaredError{}, GradientDescent{},
      HalfAfter{1}, CountEvaluations{}, FreezeBiases{},   CountBatches{}, Contiguous{},
      AtMost{}};
  const at::Tensor bias = model->parameters()[3].clone();
  CHECK(trainer.step(batch).learning_rate == 0.1);
  const Report second = trainer.step(batch);
  trainer.evaluate(held_out);
  CHECK(second.learning_rate == 0.05);
  CHECK(second.microbatches == 3);
  CHECK(trainer.mechanism<CountEvaluations>().evaluations == 1);
  CHECK(trainer.mechanism<CountBatches>().batches >= 2);
  CHECK(same_bits(model->parameters()[3], bias));
  CHECK(model->parameters()[0].abs().max().item<double>() <= 0.2f);
  CHECK(change() > 0);
}

}  // namespace test::reference::update_hooks
