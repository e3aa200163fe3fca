#pragma once
// Defines the trainer: a model and its recipe, with the methods that train it.
#include <ikebana/accumulate/accumulate.hpp>
#include <ikebana/advice/explanation.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/checks/loss.hpp>
#include <ikebana/checks/prediction.hpp>
#include <ikebana/checks/refused_trainer.hpp>
#include <ikebana/checks/values.hpp>
#include <ikebana/core/state_and_weights.hpp>
#include <ikebana/evaluate/evaluate.hpp>
#include <ikebana/evaluate/update_bn.hpp>
#include <ikebana/fit/fit.hpp>
#include <ikebana/objective/model_loss.hpp>
#include <ikebana/precision/fp32.hpp>
#include <ikebana/schedule/constant.hpp>
#include <ikebana/state/save_and_load.hpp>
#include <ikebana/step.hpp>
#include <optional>

namespace ikebana {

/// A training strategy: a model and the policies that it is trained with, in any order. A policy
/// that is left out costs nothing. Belongs to one thread at a time; can be moved; leaves plain
/// parameters when it is destroyed. Its base has the methods that save and load it.
template <class ModelT, class... Policies>
class Trainer : public SaveAndLoad<Trainer<ModelT, Policies...>> {
 public:
  /// The type of the model, as it was given.
  using Model = ModelT;
  /// One policy per axis, in wrapping order, whatever order they were given in.
  using Recipe = compose_t<Policies...>;
  /// The type by which the trainer keeps the model: for a module type, a shared pointer.
  using Handle = detail::handle_of_t<Model>;

  /// Takes the model, or a maker: a callable that returns it, `Trainer{[&] { return GPT(config); },
  /// AdamW{}}`. Then values for any of the policies, by type; the others get their defaults. A
  /// maker is called once, on every rank. Under `Shard<FSDP>` and `<HSDP>` its operators are
  /// recorded, and weights made unit by unit, with the bits of a model that was made whole
  /// (docs/shard.md); else it is just called. Throws BadModel for a model that cannot be trained,
  /// or a recorded maker that reads a value, and BadValue for a value that cannot be used.
  template <class Given, class... Values>
    requires detail::gives_model<Given, Handle>
  explicit Trainer(Given&& given, Values... values) {
    using Diagnosis = detail::values_diagnosis_t<Recipe, Values...>;
    (void)sizeof(Diagnosis);
    if constexpr (refuse::passed<Diagnosis>)
      core_ = std::make_shared<Core>(std::forward<Given>(given),
                                     detail::Values<Values...>(std::move(values)...));
  }
  template <class Given, class... Values>
    requires(!detail::gives_model<Given, Handle> &&
             !std::is_same_v<std::remove_cvref_t<Given>, Trainer>)
  explicit Trainer(Given&&, Values&&...) {
    (void)sizeof(detail::model_refusal_t<std::remove_cvref_t<Given>, Model>);
  }
  Trainer(Trainer&&) = default;
  Trainer& operator=(Trainer&&) = default;
  /// Refused: a trainer is not copied.
  template <class Given>
    requires std::is_same_v<Given&, Trainer&>
  Trainer(Given&) {
    (void)sizeof(refuse::CopiedTrainer<Given>);
  }
  /// Refused: a trainer is given its model.
  template <class Self = Trainer>
  Trainer() {
    (void)sizeof(refuse::TrainerWithoutModel<Self>);
  }

  /// Makes one update of the parameters. A batch is cut into the recipe's microbatches. In a range
  /// of batches, each batch is one microbatch, which PyTorch users call gradient accumulation. A
  /// vector or an array of tensors, and a map, is one batch. Bare tensors as microbatches are
  /// `std::vector<std::tuple<at::Tensor>>`. Throws an Error for what cannot be computed, and then
  /// nothing has changed: neither parameters, moments and counters, nor buffers and random
  /// generators. Does not wait for a device.
  template <class Batch, class... Others>
  Report step(const Batch& batch, const Others&...);
  /// Makes one update from a batch that is written in the call: `step({input, target})`.
  Report step(const std::pair<at::Tensor, at::Tensor>& batch) {
    return step<std::pair<at::Tensor, at::Tensor>>(batch);
  }

  /// Returns the mean loss and the metrics over all batches of a loader. It uses no gradients,
  /// evaluation mode, the recipe's precision, and averaged weights if the recipe has them. A metric
  /// has `name`, `update(batch, outputs)` and `value()`.
  template <class Loader, class... Metrics>
  Evaluation evaluate(Loader&& loader, Metrics... metrics);

  /// Returns the model's result for `given`, computed as `evaluate` computes: what `forward`
  /// returns for the input of a batch that has an input and a target, or for the values that
  /// `forward` takes besides `run`. If it takes neither, and the loss takes the batch, this is
  /// `Loss::outputs`. For a loader, it is a vector with a result per batch. Later steps do not
  /// change results. Costs a walk over the modules, and under EMA what an evaluation costs it. If
  /// parameters are cut among ranks, all ranks call it equally often. Does not wait for a device.
  template <class... Given>
    requires(sizeof...(Given) > 0)
  auto predict(Given&&... given) {
    using Diagnosis = detail::predict_diagnosis_t<Core, std::remove_cvref_t<Given>...>;
    (void)sizeof(Diagnosis);
    if constexpr (refuse::passed<Diagnosis>)
      return guarded([&] { return "predict, after step " + std::to_string(steps()); },
                     [&] { return detail::predict_given(core(), given...); },
                     [&](auto&) { return detail::held_memory(detail::view_of(core())); });
  }

  /// Returns true if `predict` takes a `Given` and returns a tensor.
  template <class Given>
  static consteval bool predicts_tensor() {
    if constexpr (!refuse::passed<detail::predict_diagnosis_t<Core, Given>>) return false;
    else
      return std::is_same_v<decltype(std::declval<Trainer&>().predict(std::declval<Given&>())),
                            at::Tensor>;
  }

  /// Computes the statistics of all batch norms again, for the weights that `evaluate` uses: the
  /// mean over the batches of a loader, of all ranks, of one loss of each, in training mode and
  /// without gradients. If the recipe averages weights, its average is evaluated and saved with
  /// them until it changes, and training goes on with the model's own. Dropout draws random
  /// numbers. Throws BadBatch without a batch, and BadModel without a batch norm. After an error
  /// everything is as it was. Waits for the device. Source: torch.optim.swa_utils.update_bn.
  template <class Loader>
  void update_bn(Loader&& loader);

  /// Steps over all batches of a loader, epoch by epoch, with a progress bar on a terminal.
  template <class Loader, class Options = FitOptions<detail::batch_of_t<Loader>>>
  History fit(Loader&& loader, const Options& options = {});

  /// Ends an epoch, for a loop over epochs of your own; `fit` calls it. Throws BadValue if a policy
  /// needs a loss or a validation, as ReduceLROnPlateau, and the epoch has none.
  void end_epoch(const Epoch& epoch) {
    core().check_model();
    core().mechanisms.each([&](auto& mechanism) { mechanism.end_epoch(epoch); });
  }

  /// Returns a policy's values, to read and change between steps: `get<AdamW>().lr = 1e-4`.
  template <class Policy>
  Policy& get() {
    if constexpr (detail::in_recipe<Policy, Recipe>) return mechanism<Policy>().values;
    else return (void)sizeof(refuse::NotInRecipe<Policy>), detail::unevaluated<Policy&>();
  }
  /// Returns the mechanism of a policy: `mechanism<Precision<FP16>>().loss_scale()`.
  template <class Policy>
  Mechanism<Policy>& mechanism() {
    if constexpr (detail::in_recipe<Policy, Recipe>) return core().mechanisms.template of<Policy>();
    else
      return (void)sizeof(refuse::NotInRecipe<Policy>), detail::unevaluated<Mechanism<Policy>&>();
  }
  /// Returns the model. While it trains, its parameters may lie elsewhere (`with_full_weights`).
  Handle& model() { return core().model; }
  /// Steps so far. A skipped step counts, one that threw does not.
  std::int64_t steps() const { return core().step.attempts; }

  /// Calls `f(model)` while all parameters are whole and on the model's device: the weights that
  /// are trained, also if the recipe averages them. What `f` writes to them is trained from then
  /// on. On several ranks, all call it.
  template <class F>
  decltype(auto) with_full_weights(F&& f) {
    return detail::with_full_weights(core(), f);
  }
  /// With `{.averaged = true}` the weights are the ones that `evaluate` uses: their average, if the
  /// recipe has one. Afterwards the trained weights are restored, to the bit.
  template <class F>
  decltype(auto) with_full_weights(F&& f, const FullWeightOptions& options) {
    return detail::with_full_weights(core(), f, options);
  }
  /// Calls `f(model)` as `with_full_weights`, for an `f` that replaces the weights, such as
  /// `load_weights`: an average then starts again from them. If `f` throws, it stays as it is.
  template <class F>
  void replace_weights(F&& f) {
    detail::replace_weights(core(), f);
  }
  /// Ends the trainer, and returns its model with plain, whole parameters. On several ranks, all
  /// call it; a destructor must not wait for them, and leaves cut parameters without values.
  Handle restore_model() {
    detail::together(core(), "restore_model", [&] { core().parameters.keep_full(); });
    Handle model = core().model;
    core_.reset();
    return model;
  }

  /// Restores a state, to the bit; on several ranks, each its own. Throws BadState, and changes
  /// nothing, if it does not fit.
  void restore(const StateDict& state, const StateParts& parts = {}) {
    StateDict copy = state;
    detail::load_tensors(core(), copy, nullptr, parts, std::nullopt);
  }

  /// Returns the ranks that train this model: `ranks().data().rank()`, or `OneRank` without Shard.
  auto ranks() { return core().ranks(); }
  /// Returns the device on which the model computes.
  c10::Device device() const { return core().device; }
  /// Returns the number of ranks that train this model.
  std::int64_t world_size() const { return core().ranks().data().size(); }
  /// Returns the index of this rank among them, from 0.
  std::int64_t rank() const { return core().ranks().data().rank(); }
  /// Is for a loop over steps on several ranks, all of which must end after the same step. The next
  /// step tells the others this rank's wish, at no cost. Returns the wish of all ranks as they knew
  /// it in the last step, or with one rank the wish itself.
  StopWish agree_to_stop(StopWish wish) {
    if (one_rank()) return wish;
    core().loop_end.of_this_rank = wish;
    return core().loop_end.of_all_ranks;
  }
  /// Returns the wish of all ranks at once. Every rank calls it, e.g. between two epochs.
  StopWish agree_to_stop_now(StopWish wish) { return detail::agree_to_stop_now(core(), wish); }
  /// Reports the present exception, which ends a loop on this rank, to the other ranks, so that no
  /// rank waits for this one. `fit`, a step and an evaluation report theirs.
  void report_exception() noexcept {
    core().mechanisms.shard.offer_exception(std::current_exception());
  }
  /// Ends a loop over steps on several ranks whose loaders may give different numbers of batches,
  /// like PyTorch's Join. At the end of its loader a rank calls this until the result is empty, and
  /// takes part in the steps of the others with a batch of weight zero in the shapes of `like`, any
  /// earlier batch. The result is empty, and no step was made, if no rank has a batch any more;
  /// with one rank this is so at once. `like` may be a range that is empty on all ranks or on none.
  template <class Batch>
  std::optional<Report> join_step(const Batch& like);
  /// Says where the batch of the next step lies in the data, for its report. `fit` calls it.
  void set_position(std::optional<BatchPosition> position) { core().step.position = position; }
  /// True for a recipe that runs on one rank.
  static constexpr bool one_rank() { return Core::one_rank; }

  /// Returns the memory that a step on `batch` takes on this rank, by kind, by unit and at its peak
  /// in each phase, and how much it would take with which policies, as the error of a step that ran
  /// out of memory says. Changes nothing. docs/memory.md has its cost, and lists the recipes for
  /// which only the memory between steps is known. Throws Error unless a file of the program
  /// includes <ikebana/estimate.hpp>.
  template <class Batch>
  std::string explain_peak(const Batch& batch) {
    const detail::BusyGuard busy(core().busy);
    core().check_model();
    return detail::explained_peak(detail::view_of(core()), detail::batch_view(batch),
                                  [&] { ikebana::step(core(), detail::unwrapped<Core>(batch)); });
  }

  /// Returns the operators that `Capture<...>` replays, with their tensors and times, as a text.
  template <class What = detail::captured_part<Recipe>>
  std::string tape() {
    return mechanism<Capture<What>>().text();
  }
  /// Returns the whole recipe, defaults included, in wrapping order.
  std::string describe() {
    std::string text = "Trainer of " + detail::module_name<detail::impl_of_t<Model>>() + ", " +
                       std::to_string(core().units.units().size() - 1) + " units, on " +
                       core().device.str() + "\n";
    core().mechanisms.all([&](auto& m) {
      text +=
          detail::policy_line(detail::type_name<std::decay_t<decltype(m.values)>>(), m.describe());
    });
    return text;
  }

 private:
  template <class>
  friend struct detail::CoreOf;
  template <class, class>
  friend class detail::SavedTrainerOf;
  using Core = ikebana::Core<Model, Recipe>;

  Core& core() const {
    if (!core_)
      throw Error(
          "trainer: it was moved from, or restore_model ended it. Use the one it was moved to, or "
          "make another one.");
    return *core_;
  }
  /// Calls `f()`, one call at a time, with the trainer's device as the thread's current one, that
  /// of `kCUDA`. Errors of LibTorch get `place()`, and `explain(f)` if memory ran out.
  template <class Place, class F, class Explain>
  auto guarded(const Place& place, F&& f, const Explain& explain) {
    detail::BusyGuard busy(core().busy);
    c10::OptionalDeviceGuard current;
    if (!core().device.is_cpu()) current.reset_device(core().device);
    core().failure.partly_updated = false;
    const std::int64_t before = core().step.attempts;
    try {
      return f();
    } catch (...) {
      detail::rethrow_current(core().step, core().failure, core().restore_point, before, place,
                              [&] { return explain(f); });
    }
  }

  // detail::SavedTrainer calls the methods below.
  StateDict tensors(const StateParts& parts) { return detail::tensors_of(core(), parts, nullptr); }
  RankState rank_state(const StateParts& parts) {
    RankState all;
    all.tensors = detail::tensors_of(core(), parts, &all.rows);
    return all;
  }
  StateRows rows_to_load(StateDict names) {
    StateRows rows;
    Archive archive(names, Archive::Mode::Plan, &rows);
    core().state(archive);
    return rows;
  }
  void restore_rows(RankState state, const StateParts& parts) {
    detail::load_tensors(core(), state.tensors, &state.rows, parts, several_ranks());
  }
  std::optional<Ranks> several_ranks() {
    if constexpr (one_rank()) return std::nullopt;
    else return world_size() > 1 ? std::optional<Ranks>(ranks()) : std::nullopt;
  }
  template <class F>
  void together_or_not(const char* call, F&& f) {
    detail::together_or_not(core(), call, f);
  }

  std::shared_ptr<Core> core_;
};

// These are defined outside of the class, so that `extern template` leaves them to one file.
template <class ModelT, class... Policies>
template <class Batch, class... Others>
Report Trainer<ModelT, Policies...>::step(const Batch& batch, const Others&...) {
  using Diagnosis = detail::step_diagnosis_t<Core, Batch, Others...>;
  (void)sizeof(Diagnosis);
  if constexpr (refuse::passed<Diagnosis>)
    return guarded([&] { return detail::place_in_step(core().step, detail::text_of_batch(batch)); },
                   [&] { return ikebana::step(core(), detail::unwrapped<Core>(batch)); },
                   [&](auto& step) {
                     return detail::memory_of_step(detail::view_of(core()),
                                                   detail::batch_view(batch),
                                                   /*failed=*/true, [&] { step(); });
                   });
  else return {};
}

template <class ModelT, class... Policies>
template <class Loader, class... Metrics>
Evaluation Trainer<ModelT, Policies...>::evaluate(Loader&& loader, Metrics... metrics) {
  using Diagnosis = detail::evaluate_diagnosis_t<Core, Loader, Metrics...>;
  (void)sizeof(Diagnosis);
  if constexpr (refuse::passed<Diagnosis>) {
    std::vector<Metric<detail::batch_of_t<Loader>>> list;
    (detail::append(list, std::move(metrics)), ...);
    auto visit = [&](auto&& f) { detail::visit(loader, f); };
    return guarded([&] { return "evaluate, after step " + std::to_string(steps()); },
                   [&] { return ikebana::evaluate(core(), visit, list); },
                   [&](auto&) { return detail::held_memory(detail::view_of(core())); });
  } else {
    return {};
  }
}

template <class ModelT, class... Policies>
template <class Loader, class Options>
History Trainer<ModelT, Policies...>::fit(Loader&& loader, const Options& options) {
  using Diagnosis = detail::fit_diagnosis_t<Loader, Options>;
  (void)sizeof(Diagnosis);
  if constexpr (refuse::passed<Diagnosis>) {
    auto ended = [&](const Epoch& epoch) { end_epoch(epoch); };
    const FitOptions<detail::batch_of_t<Loader>>& given = options;
    return ikebana::fit(*this, detail::range_of(loader), given, ended);
  } else {
    return {};
  }
}

template <class ModelT, class... Policies>
template <class Loader>
void Trainer<ModelT, Policies...>::update_bn(Loader&& loader) {
  if constexpr (!detail::has_batches<Loader>) {
    (void)sizeof(refuse::NoBatches<std::remove_cvref_t<Loader>>);
  } else {
    auto visit = [&](auto&& f) { detail::visit(loader, f); };
    guarded([&] { return "update_bn, after step " + std::to_string(steps()); },
            [&] {
              detail::together(core(), "update_bn", [&] {
                detail::update_bn<detail::batch_of_t<Loader>>(core(), visit);
              });
            },
            [](auto&) { return std::string(); });
  }
}

template <class ModelT, class... Policies>
template <class Batch>
std::optional<Report> Trainer<ModelT, Policies...>::join_step(const Batch& like) {
  if constexpr (one_rank()) {
    return (void)like, std::nullopt;
  } else {
    if (world_size() == 1) return std::nullopt;
    const detail::FlagScope ended(core().loop_end.has_ended);
    try {
      return step(detail::without_batch(like));
    } catch (const detail::AllRanksEnded&) {
      return std::nullopt;
    }
  }
}

template <class Model, class... Values>
Trainer(Model, Values...) -> Trainer<Model, Values...>;
template <class Maker, class... Values>
  requires detail::maker<Maker>
Trainer(Maker, Values...) -> Trainer<typename detail::made_by<Maker>::type, Values...>;

}  // namespace ikebana
