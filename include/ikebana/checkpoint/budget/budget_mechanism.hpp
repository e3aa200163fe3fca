#pragma once
// Defines the mechanism of Checkpoint<Budget> and Checkpoint<ActivationBudget>: it measures the
// first step, and the others follow a plan.
#include <ikebana/bridge/shared_memory_limit.hpp>
#include <ikebana/checkpoint/budget/forward_times.hpp>
#include <ikebana/checkpoint/budget/measurement.hpp>
#include <ikebana/checkpoint/budget/plans.hpp>
#include <ikebana/checkpoint/budget/rehearsed_frame.hpp>
#include <ikebana/checkpoint/frame/checkpoint_mechanism.hpp>
#include <ikebana/checkpoint/frame/operator_rule.hpp>
#include <ikebana/checkpoint/frame/segment_frames.hpp>
#include <ikebana/checkpoint/frame/selective_frame.hpp>
#include <ikebana/detail/bytes.hpp>
#include <ikebana/detail/recomputing.hpp>
#include <ikebana/detail/recording.hpp>
#include <ikebana/run/dry_step.hpp>
#include <ikebana/run/parameter_bytes.hpp>
#include <new>
#include <typeindex>

namespace ikebana::detail {

/// The number that is a template argument of the policy.
template <class Policy>
inline constexpr std::int64_t fixed_budget = Dynamic;
template <template <std::int64_t> class Which, std::int64_t N>
inline constexpr std::int64_t fixed_budget<Checkpoint<Which<N>>> = N;

/// Runs each outermost unit as the plan says; units inside belong to it. A step with batches of
/// sizes for which no plan holds runs every unit as Full does, and is measured.
template <class Policy, Budgeted what>
class BudgetMechanism : public CheckpointMechanism {
 public:
  Policy values;
  explicit BudgetMechanism(Policy v) : values(v) { limit(); }

  /// The policy's own values, which ranks compare. `describe` also has the plan.
  std::string describe_values() const { return "limit=" + std::to_string(limit()); }
  /// The most bytes that a step may have in use, which other policies must not contradict.
  std::int64_t memory_limit() const
    requires(what == Budgeted::Peak)
  {
    return limit();
  }
  std::int64_t limit() const {
    if constexpr (fixed_budget<Policy> != Dynamic) {
      return fixed_budget<Policy>;
    } else {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
      const std::int64_t given = values.limit, former = values.bytes;
#pragma GCC diagnostic pop
      const std::string policy =
          what == Budgeted::Peak ? "Checkpoint<Budget<>>" : "Checkpoint<ActivationBudget<>>";
      if (given != 0 && former != 0)
        throw BadValue(policy + ": limit is " + std::to_string(given) +
                       ", and bytes, its former name, is " + std::to_string(former) +
                       ". Set limit alone.");
      const std::int64_t number = given != 0 ? given : former;
      if (number > 0) return number;
      throw BadValue(policy + ": limit is " + std::to_string(number) +
                     "; it must be 1 or more, e.g. {.limit = GiB(8)}.");
    }
  }

  std::string describe() const {
    if (plans_.empty() || !plans_.present().has_plan) return describe_values();
    const PlannedBatches& one = plans_.present();
    std::string text = describe_values() + "; " + plan_text(one.plan) + "; " +
                       (what == Budgeted::Peak ? "peak " : "activations ") +
                       bytes_text(one.predicted.peak);
    if (!one.has_times) return text;
    text += ", recomputes " + std::to_string(one.predicted.time / 1'000'000) + " ms";
    if (!one.seconds.empty())
      text += " of " + std::to_string(std::lround(1e3 * predicted_seconds(one.plan))) + " ms";
    return text;
  }

  /// Tests and benchmarks call these. `planned` returns what was measured, the present plan, and
  /// the memory and time that are predicted for it. `force` sets another plan for the steps that
  /// follow. An empty plan ends that.
  const PlannedBatches& planned() const { return plans_.present(); }
  void force(Plan plan) { forced_ = std::move(plan); }
  /// Predicts the time of a step by this plan from the steps that were made by the present one.
  double predicted_seconds(const Plan& plan) const {
    const PlannedBatches& one = plans_.present();
    std::vector<double> sorted = one.seconds;
    if (sorted.empty()) return 0;
    std::sort(sorted.begin(), sorted.end());
    const auto recomputes = predict(one.planned, plan).time - one.predicted.time;
    return sorted[sorted.size() / 2] + 1e-9 * static_cast<double>(recomputes);
  }

  void attach(c10::Device device, const UnitTable& table) {
    CheckpointMechanism::attach(device, table);
    if (!bridge::operator_modes_available())
      throw Error(
          "Checkpoint<Budget>: another library of this process uses the dispatch key by which "
          "operators are intercepted. Use Checkpoint<Full>, or load only one version of ikebana.");
    counter_.emplace(device);
    uncounted_ = uncounted_bytes(table);
  }

  /// Measures a step that is not planned yet, within the budget if memory can be limited. If that
  /// meets the limit, the step is measured without values, and made by a plan that recomputes the
  /// fewest bytes; the times of its units, measured in it, make the plan of the next.
  template <class Core, class Batch, class Next>
  Report around_step(Core& core, const Batch&, Next&& next) {
    try {
      return one_step(next, 0);
    } catch (const OutOfMemory&) {
      if (!met_limit_) throw;
    }
    const std::optional<std::int64_t> grows = measured_dry(core, next);
    if (!grows) refuse_limit();
    return one_step(next, *grows);
  }
  template <class Microbatches>
  std::uint64_t usable_plans(const Microbatches& microbatches) {
    sizes_ = StepSizes::of(microbatches);
    return plans_.usable(sizes_, now());
  }
  template <class Core>
  void begin_plan(Core& core, std::uint64_t usable) {
    end_mode();
    met_limit_ = false;
    microbatch_of_step_ = &core.step.microbatch;
    if (!plans_.choose(usable, now(), core.ranks())) return begin_measurement();
    PlannedBatches& present = plans_.present();
    if (present.is_dry) set_limit();
    plan_ = forced_.empty() ? &present.plan : &forced_;
    if (!present.has_times && !without_values() && !recording())
      times_.emplace(device_, present.planned);
  }
  /// Returns true while a step is measured, which computes more than other steps.
  bool measures() const { return measurement_ != nullptr || times_.has_value(); }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    if (measurement_) measurement_->begin_update(), before_update_ = measurement_->bytes_now();
  }
  void abort() noexcept {
    met_limit_ = limit_ && limit_->holds();
    end_mode();
  }

  template <class Next, class... Args>
  auto around_gathered_unit(const Unit& unit, const Next& next, Args&&... args) {
    if (!at::GradMode::is_enabled() || recomputing() || inside_unit_ ||
        microbatch_of_step_ == nullptr)
      return next(std::forward<Args>(args)...);
    const FlagScope inside(inside_unit_);
    if (measurement_) return measured(unit, next, std::forward<Args>(args)...);
    const std::size_t place = next_place(unit);
    if (times_ && place != no_limit) timed_place_ = place;
    const Choice choice = choice_at(place);
    if (choice == Choice::Joined || choice_at(place + 1) == Choice::Joined) {
      if (choice != Choice::Joined) frames_.reset();
      return frames_.run(device_, units_[unit.index], no_limit, next, std::forward<Args>(args)...);
    }
    choice_ = choice;
    return next(std::forward<Args>(args)...);
  }
  template <class Next, class... Args>
  auto around_unit(const Unit& unit, const Next& next, Args&&... args) {
    const Choice choice = std::exchange(choice_, Choice::Keep);
    if (place_) return rehearsed(unit, next, std::forward<Args>(args)...);
    const TimedForward<Next> timed{*this, next};
    if (choice == Choice::Selective)
      return checkpoint_unit(selective_frame(device_, kept_operators_), unit, timed,
                             std::forward<Args>(args)...);
    if (choice == Choice::Full)
      return checkpoint_unit(full_frame(device_), unit, timed, std::forward<Args>(args)...);
    return timed(std::forward<Args>(args)...);
  }

 private:
  static constexpr std::size_t no_limit = std::numeric_limits<std::size_t>::max();
  /// Refuses a budget that is too small even for Full. How much Full needs is not known, because
  /// the step did not go on.
  [[noreturn]] void refuse_limit() const {
    throw OutOfMemory(
        "Checkpoint<Budget>: limit is " + bytes_text(limit()) +
        ", and a step with this batch needs more, even where every unit is "
        "recomputed by itself. Raise it, use more microbatches or more ranks of Shard<FSDP>.");
  }
  /// Calls `next` in forward, and measures that in a step that is timed.
  template <class Next>
  struct TimedForward {
    BudgetMechanism& mechanism;
    const Next& next;

    template <class... Args>
    auto operator()(Args&&... args) const {
      std::optional<ForwardTimes::Scope> scope;
      if (const auto place = std::exchange(mechanism.timed_place_, std::nullopt))
        scope.emplace(*mechanism.times_, *place);
      return next(std::forward<Args>(args)...);
    }
    auto owned() const { return next.owned(); }
  };
  struct EndOfStep {
    BudgetMechanism& mechanism;
    ~EndOfStep() { mechanism.end_mode(); }
  };
  /// Puts the former counter back, also if a step throws.
  struct CounterScope {
    std::optional<bridge::MemoryCounter>& counter;
    std::optional<bridge::MemoryCounter> former;
    ~CounterScope() { counter = std::move(former); }
  };

  BudgetNow now() const { return {what, limit(), level_ + uncounted_}; }
  void end_mode() noexcept {
    if (measurement_) measurement_->close();
    measurement_.reset(), limit_.reset(), frames_.reset(), place_.reset();
    times_.reset(), timed_place_.reset();
    plan_ = nullptr, microbatch_of_step_ = nullptr, choice_ = Choice::Keep, microbatch_ = 0;
  }
  void begin_measurement() {
    if (recording())
      throw BadValue(
          "Checkpoint<Budget>: a step that is recorded must have been planned before. Make a step "
          "with batches of these sizes first.");
    measurement_ = std::make_shared<Measurement>(device_, *counter_, level_);
    set_limit();
  }
  void set_limit() {
    if (what == Budgeted::Peak && device_.is_cpu()) limit_.emplace(limit() - uncounted_);
  }
  /// Makes one step. `grows` is the number of bytes of state that the step makes, with which later
  /// steps begin.
  template <class Next>
  Report one_step(Next& next, std::int64_t grows) {
    const EndOfStep end{*this};
    met_limit_ = false;
    level_ = counter_->now() + grows;
    const auto begin = std::chrono::steady_clock::now();
    Report report = next();
    try {
      end_measured_or_planned(report, begin);
    } catch (const std::bad_alloc&) {  // the step is made; a later one measures again
    }
    return report;
  }
  /// Measures the step on tensors without memory. Returns how many bytes more later steps begin
  /// with; no value if the step needs values or other ranks.
  template <class Core, class Next>
  std::optional<std::int64_t> measured_dry(Core& core, Next& next) {
    if constexpr (plans_dry<Core>) {
      const EndOfStep end{*this};
      level_ = counter_->now();
      const DryMemory memory = dry_memory(device_, level_);
      const CounterScope scope{counter_, std::exchange(counter_, memory.counter)};
      std::string measured;
      AtDryUpdate listener([&] {
        const std::int64_t grows = measurement_->end_dry_step(before_update_);
        measured = to_bytes(std::array{grows, measurement_->inputs()}, costs());
      });
      const auto result = dry_step(
          core.step.dry, core.device, memory.ledger, listener, nullptr, [&] { next(); },
          [&] { return measured; });
      if (!result) return {};
      std::array<std::int64_t, 2> numbers{};
      Costs costs = from_bytes(*result, numbers);
      add_plan(std::move(costs), numbers[1], /*is_dry=*/true);
      return numbers[0];
    } else {
      return {};
    }
  }
  void end_measured_or_planned(const Report& report, std::chrono::steady_clock::time_point begin) {
    if (measurement_) {
      const at::Tensor& outputs = report.outputs;
      measurement_->end_step(
          outputs.defined() ? static_cast<std::int64_t>(outputs.storage().nbytes()) : 0);
      add_plan(costs(), measurement_->inputs(), /*is_dry=*/false);
    } else if (times_) {
      Costs costs = plans_.present().costs;
      if (times_->add_to(costs, kind())) plans_.present().take_times(std::move(costs));
    } else if (device_.is_cpu() && plan_ == &plans_.present().plan) {
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      plans_.present().note_seconds(seconds.count());
    }
  }
  auto kind() const {
    return [this](std::int64_t unit) {
      const torch::nn::Module& module = *units_[static_cast<std::size_t>(unit)]->module;
      return std::type_index(typeid(module));
    };
  }
  Costs costs() const {
    Costs all = measurement_->costs(kind());
    return without_values() ? by_bytes(std::move(all)) : all;
  }
  void add_plan(Costs costs, std::int64_t inputs, bool is_dry) {
    plans_.add({.sizes = sizes_,
                .costs = std::move(costs),
                .inputs = inputs,
                .planned = {},
                .plan = {},
                .is_dry = is_dry,
                .has_times = !is_dry && !without_values()});
  }

  bool is_new_microbatch() {
    return std::exchange(microbatch_, *microbatch_of_step_) != *microbatch_of_step_;
  }
  /// Returns the place in its microbatch of the outermost unit that is called now. Returns
  /// `no_limit` if the plan has another unit there, and from then on.
  std::size_t next_place(const Unit& unit) {
    if (is_new_microbatch()) units_run_ = 0, frames_.reset();
    const auto& units = plans_.present().planned.units;
    if (units_run_ >= units.size() ||
        units[units_run_].unit != static_cast<std::int64_t>(unit.index))
      return units_run_ = no_limit;
    return units_run_++;
  }
  Choice choice_at(std::size_t place) const {
    return place < plan_->size() ? (*plan_)[place] : Choice::Full;
  }
  template <class Next, class... Args>
  auto measured(const Unit& unit, const Next& next, Args&&... args) {
    if (is_new_microbatch()) measurement_->begin_microbatch();
    const auto place = measurement_->begin_forward(unit.index, args...);
    choice_ = Choice::Full;
    if (!place) return next(std::forward<Args>(args)...);
    place_ = std::make_shared<const std::size_t>(*place);
    auto result = next(std::forward<Args>(args)...);
    measurement_->end_forward(*place, result);
    return result;
  }
  template <class Next, class... Args>
  auto rehearsed(const Unit& unit, const Next& next, Args&&... args) {
    const auto place = std::exchange(place_, nullptr);
    measurement_->gathered(*place, place);
    return checkpoint_unit(rehearsed_frame(device_, measurement_, place), unit, next,
                           std::forward<Args>(args)...);
  }

  Plans plans_;
  Plan forced_;
  std::optional<bridge::MemoryCounter> counter_;
  std::int64_t uncounted_ = 0;      // bytes of the trainer that the counter does not count
  std::int64_t level_ = 0;          // bytes in use when the step began
  std::int64_t before_update_ = 0;  // what the step had added when its gradients were complete
  OperatorRule kept_operators_ = matrix_operators;
  StepSizes sizes_;  // the sizes of this step

  // The state of a step. One of the first two is set while the step is made. `times_` may be set
  // together with a plan.
  std::shared_ptr<Measurement> measurement_;
  const Plan* plan_ = nullptr;
  std::optional<ForwardTimes> times_;
  std::optional<bridge::SharedMemoryLimit> limit_;
  bool met_limit_ = false;  // whether the exception may have come from the limit
  const std::size_t* microbatch_of_step_ = nullptr;
  std::size_t microbatch_ = 0, units_run_ = 0;
  bool inside_unit_ = false;
  SegmentFrames frames_;
  // Passed from around_gathered_unit to around_unit.
  Choice choice_ = Choice::Keep;
  std::shared_ptr<const std::size_t> place_;
  std::optional<std::size_t> timed_place_;
};

}  // namespace ikebana::detail
