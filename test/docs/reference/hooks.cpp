// Examples of the reference: hooks around a step, a unit and its parameters, by policies of one's
// own.
#include "policies.hpp"

#include <cmath>

// example: ObserveHooks, StepWrapperHooks, axis::observe
struct CountPhases {
  using axis = ikebana::axis::observe;
};
template <>
struct ikebana::Mechanism<CountPhases> : ikebana::ObserveHooks {
  CountPhases values;
  std::int64_t steps = 0, backwards = 0;
  explicit Mechanism(CountPhases v) : values(v) {}
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    ++steps;
    return next();
  }
  template <class Next>
  decltype(auto) around_phase(Phase phase, Next&& next) {
    if (phase == Phase::Backward) ++backwards;
    return next();
  }
};
// end

// example: UnitBackwardHooks
struct ListBackward {
  using axis = ikebana::axis::observe;
};
template <>
struct ikebana::Mechanism<ListBackward> : ikebana::ObserveHooks {
  static constexpr bool listens_to_backward = true;
  ListBackward values;
  std::string order = {};
  explicit Mechanism(ListBackward v) : values(v) {}
  void after_unit_backward(const Unit& unit) { order += unit.name; }
};
// end

// example: CaptureHooks, axis::capture
struct LastReport {
  using axis = ikebana::axis::capture;
};
template <>
struct ikebana::Mechanism<LastReport> : ikebana::CaptureHooks {
  LastReport values;
  double learning_rate = 0;
  explicit Mechanism(LastReport v) : values(v) {}
  template <class Core, class Batch, class Next>
  Report around_step(Core&, const Batch&, Next&& next) {
    Report report = next();
    learning_rate = report.learning_rate;
    return report;
  }
};
// end

// example: ShardHooks, axis::shard, OneRank
struct CountUpdates {
  using axis = ikebana::axis::shard;
};
template <>
struct ikebana::Mechanism<CountUpdates> : ikebana::ShardHooks {
  CountUpdates values;
  std::int64_t updates = 0;
  explicit Mechanism(CountUpdates v) : values(v) {}
  OneRank ranks() const { return {}; }  // for several ranks: a `Ranks`
  void set_requires_gradient_sync(bool is_last) { updates += is_last ? 1 : 0; }
};
// end

// example: OffloadHooks, StateStorage, axis::offload
struct CountState {
  using axis = ikebana::axis::offload;
};
template <>
struct ikebana::Mechanism<CountState> : ikebana::OffloadHooks, ikebana::StateStorage {
  CountState values;
  std::size_t bytes = 0;
  explicit Mechanism(CountState v) : values(v) {}
  StateStorage* state_storage() { return this; }
  at::Tensor place_state(const at::Tensor& state) override {
    bytes += state.nbytes();
    return state.clone();  // or a tensor with these values elsewhere
  }
};
// end

// example: CheckpointHooks, UnitWrapperHooks, axis::checkpoint
struct CountForwards {
  using axis = ikebana::axis::checkpoint;
};
template <>
struct ikebana::Mechanism<CountForwards> : ikebana::CheckpointHooks {
  static constexpr bool per_unit = true;
  CountForwards values;
  std::int64_t forwards = 0;
  explicit Mechanism(CountForwards v) : values(v) {}
  template <class Next, class... Args>
  decltype(auto) around_unit(const Unit&, Next&& next, Args&&... args) {
    ++forwards;
    return next(std::forward<Args>(args)...);
  }
};
// end

// example: PrecisionHooks, axis::precision
struct DoubleMasters {
  using axis = ikebana::axis::precision;
};
template <>
struct ikebana::Mechanism<DoubleMasters> : ikebana::PrecisionHooks {
  static constexpr bool moves_parameters = true;
  DoubleMasters values;
  explicit Mechanism(DoubleMasters v) : values(v) {}
  Tensors to_masters(const Unit&, Tensors full) { return cast(full, at::kDouble); }
  Tensors gather(const Unit&, Tensors masters) { return cast(masters, at::kFloat); }
  Tensors reduce(const Unit&, Tensors gradients) { return cast(gradients, at::kDouble); }
  Tensors restore_dtype(const Unit&, Tensors masters) { return cast(masters, at::kFloat); }

 private:
  static Tensors cast(Tensors tensors, at::ScalarType dtype) {
    for (at::Tensor& t : tensors)
      if (t.defined()) t = t.to(dtype);
    return tensors;
  }
};
// end

// example: StorageHooks
struct MaskSmall {
  using axis = ikebana::axis::precision;
  double below = 0.01;
};
template <>
struct ikebana::Mechanism<MaskSmall> : ikebana::PrecisionHooks {
  static constexpr bool moves_parameters = true;
  MaskSmall values;
  explicit Mechanism(MaskSmall v) : values(v) {}
  Tensors gather(const Unit&, Tensors weights) {  // what a unit computes with
    for (at::Tensor& weight : weights) weight = weight * (weight.abs() >= values.below);
    return weights;
  }
};
// end

// example: DeferredCheck, readable
struct RefuseLarge {
  using axis = ikebana::axis::clip;
  double most = 1e6;
};
template <>
struct ikebana::Mechanism<RefuseLarge> : ikebana::ClipHooks {
  RefuseLarge values;
  double largest = 0;
  explicit Mechanism(RefuseLarge v) : values(v) {}
  template <class Ranks>
  void accept(StepGradients& gradients, const LossValue&, Ranks&, DeferredCheck& deferred) {
    at::Tensor flag = at::zeros({});
    for (const at::Tensor& g : gradients.values) flag += g.abs().max() > values.most;
    gradients.reject(flag);
    deferred.expect_zero(flag, [] { throw Error("a gradient is too large"); });
    if (readable(gradients.values[0])) largest = gradients.values[0].abs().max().item<double>();
  }
};
// end

// example: CutParameter
at::Tensor sum_of_squares(std::vector<ikebana::CutParameter>& all) {  // called in `update_cut`
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (ikebana::CutParameter& one : all)
    one.read([&](const auto& update) { sum += update.gradient().square().sum(at::kDouble); });
  return sum;  // the sum of this rank's rows: `ranks_->sum` adds the sums of the others
}
// end

namespace test::reference::hooks {

TEST_CASE_FIXTURE(Small, "reference: a policy rejects an update by a flag") {
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, RefuseLarge{}};
  trainer.step(batch);
  CHECK(trainer.mechanism<RefuseLarge>().largest > 0);
  trainer.get<RefuseLarge>().most = 0;
  CHECK_THROWS_WITH_AS(trainer.step(batch), doctest::Contains("a gradient is too large"), Error);
  std::vector<CutParameter> none;
  CHECK(sum_of_squares(none).item<double>() == 0);
}

TEST_CASE("reference: the momentum of a step") {
  // example: momentum_of
  Mechanism<OneCycleLR> schedule(OneCycleLR{.max_lr = 0.1, .total_steps = 10});
  const StepRate rate(schedule, 0);                // what a step gives to `prepare`
  const double momentum = momentum_of(rate, 0.9);  // the schedule's
  const auto no_schedule = [](double lr) { return lr; };
  const double base = momentum_of(no_schedule, 0.9);  // 0.9
  // end
  CHECK(momentum == 0.95);
  CHECK(base == 0.9);
}

TEST_CASE_FIXTURE(Small, "reference: hooks around a step, its units and their parameters") {
  Trainer trainer{model,          CrossEntropyLoss{}, AdamW{.lr = 1e-3}, CountPhases{},
                  ListBackward{}, CountForwards{},    LastReport{},      CountUpdates{},
                  CountState{},   DoubleMasters{}};
  trainer.step(batch), trainer.step(batch);
  CHECK((trainer.mechanism<CountPhases>().steps == 2));
  CHECK(trainer.mechanism<CountPhases>().backwards == 2);
  CHECK(trainer.mechanism<ListBackward>().order.starts_with("2"));
  CHECK(trainer.mechanism<CountForwards>().forwards == 6);
  CHECK(trainer.mechanism<LastReport>().learning_rate == 1e-3);
  CHECK(trainer.mechanism<CountUpdates>().updates == 2);
  CHECK(trainer.mechanism<CountState>().bytes >= 16 * (4 * 16 + 16 + 16 * 3 + 3));
}

TEST_CASE_FIXTURE(Small, "reference: a policy decides what a unit computes with") {
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, MaskSmall{.below = 1e9}};
  CHECK(trainer.evaluate(held_out).loss == doctest::Approx(std::log(3)));  // all are masked
}

}  // namespace test::reference::hooks
