#pragma once
// Defines the core of a trainer: all that it holds, in one heap block to which graphs and hooks
// hold weak pointers.
#include <atomic>
#include <ikebana/batch/packed_row.hpp>
#include <ikebana/bridge/cast_weights.hpp>
#include <ikebana/bridge/recorded_inputs.hpp>
#include <ikebana/core/claim.hpp>
#include <ikebana/core/compared_values.hpp>
#include <ikebana/core/dummy.hpp>
#include <ikebana/core/generators.hpp>
#include <ikebana/core/loop_end.hpp>
#include <ikebana/core/mechanisms.hpp>
#include <ikebana/core/move_model.hpp>
#include <ikebana/core/policy_checks.hpp>
#include <ikebana/core/registered_tensors.hpp>
#include <ikebana/core/restore_point.hpp>
#include <ikebana/core/rethrow.hpp>
#include <ikebana/core/step_state.hpp>
#include <ikebana/core/untrained_leaves.hpp>
#include <ikebana/detail/one_version.hpp>
#include <ikebana/hooks/update.hpp>
#include <ikebana/parameters/parameters.hpp>
#include <ikebana/ranks/rank_calls.hpp>
#include <ikebana/run/run.hpp>

namespace ikebana {

namespace detail {

/// True if the text of a mechanism names the processor, which may differ between ranks.
template <class M>
inline constexpr bool describes_processor = requires { requires M::describes_processor; };

/// Gives functions of the library that are no methods of a trainer its core.
template <class Trainer>
struct CoreOf {
  static auto& of(Trainer& trainer) { return trainer.core(); }
};

}  // namespace detail

/// The model, its units, the mechanisms of its recipe, its parameters, and the state of a step.
template <class ModelT, class RecipeT>
class Core : public std::enable_shared_from_this<Core<ModelT, RecipeT>> {
 public:
  using Model = ModelT;
  using Handle = detail::handle_of_t<Model>;
  /// True for a recipe that runs on one rank: the exchanges of ranks are not compiled then.
  static constexpr bool one_rank = Mechanisms<RecipeT>::one_rank;
  /// True for a recipe with a policy that works unit by unit.
  static constexpr bool per_unit = Mechanisms<RecipeT>::per_unit;
  /// True for a recipe that may make a step again with more microbatches.
  static constexpr bool fits_memory =
      std::decay_t<decltype(std::declval<Mechanisms<RecipeT>&>().accumulate)>::fits_memory;
  using Optimizer = std::decay_t<decltype(std::declval<Mechanisms<RecipeT>&>().optimizer)>;
  static constexpr bool update_may_throw = !noexcept(std::declval<detail::Update<Optimizer>&>()(
      std::declval<Optimizer&>(), std::declval<const Masters&>(), std::declval<StepGradients&>()));

  /// `given` is the model, or a maker that returns it.
  template <class Given, class Values>
  Core(Given&& given, Values values)
      : mechanisms(std::move(values)),
        model(made(std::forward<Given>(given))),
        units(prepared_units()),
        device(units.units()[0].module->parameters()[0].device()),
        registered_(*units.units()[0].module),
        claim_((mechanisms.freeze.freeze(units), detail::trained_parameters(units))),
        parameters((attach(), mechanisms), units) {
    reporting([&] {
      check_optimizer();
      mechanisms.each([&](auto& mechanism) { mechanism.begin(parameters.masters()); });
      if constexpr (!one_rank && update_may_throw) update.keep_copies(mechanisms.optimizer);
    });
    parameters.forget_originals();
  }

  auto ranks() { return mechanisms.shard.ranks(); }

  /// Returns the loss of one microbatch that is trained on: computed, or replayed.
  template <class Run, class Batch>
  Loss forward(Run& run, const Batch& microbatch) {
    return mechanisms.capture.around_microbatch(*this, microbatch,
                                                [&](const Batch& one) { return loss(run, one); });
  }
  /// Returns the loss of one microbatch, in training and in evaluation.
  template <class Run, class Batch>
  Loss loss(Run& run, const Batch& microbatch) {
    if (step.dry != nullptr) step.dry->begin_phase(Phase::Forward);
    auto objective = [&] { return mechanisms.objective.loss(run, model, microbatch); };
    auto forward = [&] {
      const bool trains = !run.evaluating && step.dry == nullptr;
      return untrained_.forward(microbatch, trains, step.is_first(), objective);
    };
    if constexpr (!one_rank) {
      const auto scope = rank_calls.scope(step.is_dummy);
      Loss loss = around_forward(microbatch, forward);
      rank_calls->compare("the end of a forward");
      if (step.is_dummy) detail::weigh_nothing(loss, ranks().slices().size() == 1);
      return loss;
    } else {
      return around_forward(microbatch, forward);
    }
  }
  /// Calls `next`, which computes with the model, inside of all that surrounds such a computation.
  template <class Batch, class Next>
  auto around_forward(const Batch& microbatch, const Next& next) {
    const bridge::OwnCastWeights casts(device.type());
    const detail::PackedRow<Batch> packed(microbatch);
    return parameters.around_model(units.units()[0], [&] {
      return mechanisms.offload.around_loss(
          microbatch, [&] { return mechanisms.precision.around_forward(next); });
    });
  }
  /// Runs one unit's forward inside all wrappers (run/unit_call.hpp).
  template <class Forward, class... Args>
  auto run_unit(const torch::nn::Module* module, Forward forward, Args&&... args) {
    const Unit& unit = units.at(module);
    step.unit_was_run = true;
    using Wrappers = typename Mechanisms<RecipeT>::template active<UnitWrappers>;
    const detail::DryUnit in_dry_step(step.dry, unit.index, args...);
    const detail::WatchedUnit watched(untrained_.record(), unit);
    const detail::UnitCall<Core, Forward, Wrappers> call{this, &unit, forward};
    return call(std::forward<Args>(args)...);
  }
  /// Computes the gradients of the microbatch whose forward was last, or replays that.
  void backward() {
    if (step.dry != nullptr) step.dry->begin_phase(Phase::Backward);
    mechanisms.capture.around_gradients(*this, [&] { run_backward(); });
    step.roots.clear();
  }
  /// Collects the gradients that arrived. Throws BadModel if no gradient did.
  StepGradients& collect_gradients() {
    if (step.dry != nullptr) step.dry->begin_phase(Phase::Optimizer);
    step.gradients.collect(parameters.masters().values);
    step.gradients.protocol.storage = parameters.masters().storage;
    step.gradients.position = step.position;
    step.gradients.protocol.updated_in_backward = mechanisms.optimizer.has_updated();
    if (step.microbatches == 0) detail::refuse_no_microbatch();
    detail::check_gradients(step.gradients, parameters.masters());
    return step.gradients;
  }
  /// Frees gradients instead of setting them to zero: the next forward can use their memory.
  void forget_gradients() noexcept {
    detail::forget_gradients(step.gradients, parameters.masters());
  }
  void end_step() noexcept {
    update.end_step();
    restore_point.commit();
    bridge::forget_cast_weights(device.type());
    compared.end_step();
  }
  void abort() noexcept {
    step.roots.clear(), step.deferred.undo();
    update.abort(mechanisms.optimizer, parameters.masters());
    forget_gradients();
    failure.partly_updated = mechanisms.optimizer.has_updated();
    parameters.abort();
    mechanisms.each([](auto& mechanism) { mechanism.abort(); });
    restore_point.restore();
    compared.abort();
  }
  /// Calls `f` with the weights that are evaluated.
  template <class F>
  decltype(auto) around_evaluation(F&& f) {
    if constexpr (one_rank ||
                  detail::is_null_mechanism<std::decay_t<decltype(mechanisms.average)>>) {
      return mechanisms.average.around_evaluation(parameters, f);
    } else {
      struct Exchanged {
        detail::WrittenWeights& written;
        ~Exchanged() { written.skip(); }
      } exchanged{compared.written()};
      exchanged.written.look();
      return mechanisms.average.around_evaluation(parameters, f);
    }
  }
  /// Throws BadModel if the model no longer has the parameters and buffers that this trainer trains
  /// and saves. Costs a walk over its modules; called at the first step, and at each evaluation,
  /// save and epoch.
  void check_model() {
    registered_.check(*units.units()[0].module);
    parameters.check();
  }
  /// Returns a hash of the recipe, the descriptions of its policies, and the names and shapes of
  /// the parameters that are trained. Ranks with different hashes do not train one model.
  std::uint64_t signature() {
    detail::LinesHash hash;
    each_line_of_signature(hash);
    return hash.value;
  }
  /// Returns a hash of all values that must be equal on all ranks when this step begins. Costs
  /// about a microsecond for a hundred values. Values that cannot change between steps are read
  /// once, and again after a state was loaded.
  std::uint64_t values_of_step() {
    return compared.number(mechanisms, step.attempts, [&] { return signature(); });
  }
  /// Returns a line `name = value` for each of these values.
  std::string lines_of_step() {
    return compared.lines(mechanisms, step.attempts) +
           detail::text_of_lines([&](detail::AddLine add) { each_line_of_signature(add); });
  }
  void state(Archive& archive) {
    check_model();
    update.settle(mechanisms.optimizer, parameters.masters());
    detail::save_generators(archive, device);
    parameters.state(archive);
    archive.begin_model();
    detail::archive_buffers(archive, *units.units()[0].module);
    archive.begin_section("trainer");
    archive.number("step", step.attempts, &count_range);
    mechanisms.each([&](auto& mechanism) {
      archive.begin_policy(detail::type_name<std::decay_t<decltype(mechanism.values)>>());
      mechanism.state(archive, parameters.masters());
    });
  }

  Mechanisms<RecipeT> mechanisms;
  Handle model;
  UnitTable units;
  c10::Device device;

 private:
  detail::RegisteredTensors registered_;
  detail::ParameterClaim claim_;  // claims parameters before they are taken from the model
  detail::UntrainedLeaves untrained_;

 public:
  ParametersOf<Mechanisms<RecipeT>> parameters;
  StepState step;
  detail::StepFailure failure;
  detail::LoopEnd loop_end;
  detail::ModeWarning mode_warning;
  [[no_unique_address]] detail::ModelRankCalls<one_rank> rank_calls{*units.units()[0].module,
                                                                    mechanisms.shard.ranks()};
  [[no_unique_address]] detail::Update<Optimizer> update;
  detail::RestorePoint restore_point{device};
  detail::ExplainedStep explained;
  [[no_unique_address]] detail::ComparedValues<one_rank> compared{*units.units()[0].module,
                                                                  parameters.masters()};
  std::atomic<bool> busy = false;

 private:
  void run_backward() {
    if (step.is_last_microbatch()) parameters.check_all_were_run();
    for (at::Tensor& seed : step.roots.seeds) seed = mechanisms.precision.scale(seed);  // 7
    const bool asks = step.dry == nullptr && !step.is_dummy;
    const detail::UntrainedLeaves::Check others{asks ? &untrained_ : nullptr,
                                                *units.units()[0].module};
    mechanisms.precision.around_backward([&] {  // 8
      if constexpr (one_rank) parameters.backward(step.roots, others);
      else if (step.is_dummy) parameters.backward_of_dummy(step.roots, others);
      else parameters.backward(step.roots, others);
    });
    if constexpr (!one_rank) rank_calls->compare("the end of a backward");
  }
  void each_line_of_signature(detail::AddLine f) {
    f("the recipe", detail::spelled_type<RecipeT>());
    mechanisms.each([&](auto& mechanism) {
      using M = std::decay_t<decltype(mechanism)>;
      using Policy = std::decay_t<decltype(mechanism.values)>;
      if constexpr (requires { mechanism.describe_values(); })
        f(detail::type_name<Policy>(), mechanism.describe_values());
      else if constexpr (!std::is_same_v<axis_of_t<Policy>, axis::device> &&
                         !detail::describes_processor<M>)
        f(detail::type_name<Policy>(), mechanism.describe());
    });
    detail::each_line_of(parameters.masters(), f);
  }
  /// Makes the model, or takes it, and moves it to the recipe's device.
  template <class Given>
  Handle made(Given&& given) {
    if constexpr (requires { mechanisms.shard.name_trainer("", ""); })
      mechanisms.shard.name_trainer(detail::module_name<detail::impl_of_t<Model>>(),
                                    detail::type_name<RecipeT>());
    if constexpr (std::is_convertible_v<Given, Handle>) return moved(std::forward<Given>(given));
    else return mechanisms.shard.make_model([&] { return moved(given()); });
  }
  Handle moved(Handle given) {
    auto module = detail::module_of(given);
    if (!module) throw BadModel("trainer: the model is empty. Make it first: Net net(...).");
    if constexpr (requires { mechanisms.device.values.device; })
      detail::move(*module, mechanisms.device.values.device);
    return given;
  }
  UnitTable prepared_units() {
    detail::check_trainable(*detail::module_of(model));
    return UnitTable::of(model);
  }
  /// Throws BadValue for an optimizer that would be wrong with the recipe's ranks or schedule.
  void check_optimizer() const {
    using Policy = std::decay_t<decltype(mechanisms.optimizer.values)>;
    if constexpr (!one_rank && Optimizer::updates_in_backward)
      throw BadValue(detail::type_name<Policy>() +
                     ": it updates parameters before their gradients are added up over ranks. "
                     "Write the optimizer without InBackward.");
    detail::check_initial_weights<Optimizer>(mechanisms.average);
    detail::refuse_slices<Optimizer>(parameters.masters());
    detail::check_cycled_momentum(mechanisms.schedule, mechanisms.optimizer);
  }
  void attach() {
    reporting([&] { mechanisms.each([&](auto& mechanism) { mechanism.attach(device, units); }); });
  }
  /// Calls `f`. If it throws, reports that to the other ranks, if they are connected already.
  template <class F>
  void reporting(F&& f) {
    if constexpr (one_rank) return f();
    try {
      f();
    } catch (...) {
      mechanisms.shard.offer_exception(std::current_exception());
      throw;
    }
  }
};

}  // namespace ikebana
