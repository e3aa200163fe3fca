#pragma once
// What a user holds: a model and its recipe, with the methods that train it.
#include <ikebana/accumulate/accumulate.hpp>
#include <ikebana/advice/explanation.hpp>
#include <ikebana/bridge/memory.hpp>
#include <ikebana/checks/loss.hpp>
#include <ikebana/checks/prediction.hpp>
#include <ikebana/checks/refused_trainer.hpp>
#include <ikebana/checks/values.hpp>
#include <ikebana/core/rank_methods.hpp>
#include <ikebana/core/state_methods.hpp>
#include <ikebana/core/weight_methods.hpp>
#include <ikebana/evaluate/evaluate.hpp>
#include <ikebana/evaluate/update_bn.hpp>
#include <ikebana/fit/fit.hpp>
#include <ikebana/objective/model_loss.hpp>
#include <ikebana/precision/fp32.hpp>
#include <ikebana/schedule/constant.hpp>
#include <ikebana/state/save_and_load.hpp>
#include <ikebana/step.hpp>

namespace ikebana {

/// A training strategy: a model and the policies that it is trained with, in any order. A policy
/// that is left out costs nothing. Belongs to one thread at a time; can be moved; leaves plain
/// parameters when it is destroyed. Its bases, each in a file of its own, have further methods.
template <class ModelT, class... Policies>
class Trainer : public SaveAndLoad<Trainer<ModelT, Policies...>>,
                public StateMethods<Trainer<ModelT, Policies...>>,
                public RankMethods<Trainer<ModelT, Policies...>>,
                public WeightMethods<Trainer<ModelT, Policies...>>,
                public BatchNormMethods<Trainer<ModelT, Policies...>> {
 public:
  /// The type of the model, as it was given.
  using Model = ModelT;
  /// One policy per axis, in wrapping order, whatever order they were given in.
  using Recipe = compose_t<Policies...>;
  /// How the trainer keeps the model: a module type by a shared pointer.
  using Handle = detail::handle_of_t<Model>;

  /// Takes the model, or a maker: a callable that returns it, `Trainer{[&] { return GPT(config); },
  /// AdamW{}}`. Then values for any of the policies, by type; the others get their defaults. A
  /// maker is called once, on every rank. Under `Shard<FSDP>` and `<HSDP>` its operators are
  /// recorded, and weights made unit by unit, with the bits of a model that was made whole
  /// (docs/shard.md); in other recipes a rank holds whole parameters, and it is just called. Throws
  /// BadModel for a model that cannot be trained, or a recorded maker that reads a value, and
  /// BadValue for a policy's value that cannot be used.
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

  /// One update of the parameters. A batch is cut into the recipe's microbatches; of a range of
  /// batches each is one microbatch, which PyTorch users call gradient accumulation. A vector or an
  /// array of tensors, and a map, is one batch; bare tensors as microbatches are
  /// `std::vector<std::tuple<at::Tensor>>`. Throws an Error for what cannot be computed, and then
  /// nothing has changed: neither parameters, moments and counters, nor buffers and random
  /// generators. Waits for no device.
  template <class Batch, class... Others>
  Report step(const Batch& batch, const Others&...);
  /// The same for a batch that is written in the call: `step({input, target})`.
  Report step(const std::pair<at::Tensor, at::Tensor>& batch) {
    return step<std::pair<at::Tensor, at::Tensor>>(batch);
  }

  /// The mean loss and the metrics over all batches of a loader: no gradients, evaluation mode, the
  /// recipe's precision, averaged weights where the recipe has them. A metric has `name`,
  /// `update(batch, outputs)` and `value()`.
  template <class Loader, class... Metrics>
  Evaluation evaluate(Loader&& loader, Metrics... metrics);

  /// What the model gives for `given`, computed as `evaluate` computes: what `forward` returns, for
  /// the input of a batch that has an input and a target, or for the values that `forward` takes
  /// besides `run`. Where `forward` takes neither, and the loss takes the batch, `Loss::outputs`.
  /// Of a loader a vector with a result per batch. Results belong to the caller: later steps do not
  /// change them. Costs a walk over the modules, and under EMA what an evaluation costs it. Where
  /// parameters are cut among ranks, all ranks call it, equally often. Waits for no device.
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

  /// Whether `predict` takes a `Given` and returns a tensor.
  template <class Given>
  static consteval bool predicts_tensor() {
    if constexpr (!refuse::passed<detail::predict_diagnosis_t<Core, Given>>) return false;
    else
      return std::is_same_v<decltype(std::declval<Trainer&>().predict(std::declval<Given&>())),
                            at::Tensor>;
  }

  /// Steps over all batches of a loader, epoch by epoch, with a progress bar on a terminal.
  template <class Loader, class Options = FitOptions<detail::batch_of_t<Loader>>>
  History fit(Loader&& loader, const Options& options = {});

  /// What `fit` calls after each epoch, for a loop over epochs of your own. Throws BadValue where a
  /// policy needs a loss or a validation, as ReduceLROnPlateau, and the epoch has none.
  void end_epoch(const Epoch& epoch) {
    core().check_model();
    core().mechanisms.each([&](auto& mechanism) { mechanism.end_epoch(epoch); });
  }

  /// The values of a policy, to be read and changed between steps: `get<AdamW>().lr = 1e-4`.
  template <class Policy>
  Policy& get() {
    if constexpr (detail::in_recipe<Policy, Recipe>) return mechanism<Policy>().values;
    else return (void)sizeof(refuse::NotInRecipe<Policy>), detail::unevaluated<Policy&>();
  }
  /// The mechanism of a policy: `mechanism<Precision<FP16>>().loss_scale()`.
  template <class Policy>
  Mechanism<Policy>& mechanism() {
    if constexpr (detail::in_recipe<Policy, Recipe>) {
      return core().mechanisms.template of<Policy>();
    } else {
      return (void)sizeof(refuse::NotInRecipe<Policy>), detail::unevaluated<Mechanism<Policy>&>();
    }
  }
  /// The model. While it trains, its parameters may lie elsewhere (`with_full_weights`).
  Handle& model() { return core().model; }
  /// Steps so far. A skipped step counts, one that threw does not.
  std::int64_t steps() const { return core().step.attempts; }

  /// Ends the trainer, and returns its model with plain, whole parameters on every rank, which all
  /// call. A destructor alone must not wait for other ranks: parameters that are cut among them
  /// have no values then.
  Handle restore_model() {
    detail::together(core(), "restore_model", [&] { core().parameters.keep_full(); });
    Handle model = core().model;
    core_.reset();
    return model;
  }

  /// What a step on `batch` takes, by kind, by unit and at its peak in each phase, and with which
  /// policies it would take how much: what the error of a step that ran out of memory says, without
  /// running out. Changes nothing; costs as that (docs/memory.md), which also says of which recipes
  /// only what is held between steps is known. Of several ranks, of this one. Throws Error unless a
  /// file of the program includes <ikebana/estimate.hpp>.
  template <class Batch>
  std::string explain_peak(const Batch& batch) {
    const detail::BusyGuard busy(core().busy);
    core().check_model();
    return detail::explained_peak(detail::view_of(core()), detail::batch_view(batch),
                                  [&] { ikebana::step(core(), detail::unwrapped<Core>(batch)); });
  }

  /// The whole recipe, defaults included, in wrapping order.
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
  friend class BatchNormMethods<Trainer>;
  friend class RankMethods<Trainer>;
  friend class StateMethods<Trainer>;
  friend class WeightMethods<Trainer>;
  using Core = ikebana::Core<Model, Recipe>;

  Core& core() const {
    if (!core_)
      throw Error(
          "trainer: it was moved from, or restore_model ended it. Use the one it was moved to, or "
          "make another one.");
    return *core_;
  }
  /// One call at a time, with the trainer's device as the thread's current one, so that `kCUDA` in
  /// a model means that device. Errors of LibTorch become this library's, with `place()`; where
  /// memory ran out, `explain(f)` says what took it.
  template <class Place, class F, class Explain>
  auto guarded(const Place& place, F&& f, const Explain& explain) {
    detail::BusyGuard busy(core().busy);
    c10::OptionalDeviceGuard current;
    if (!core().device.is_cpu()) current.reset_device(core().device);
    core().step.partly_updated = false;
    const std::int64_t before = core().step.attempts;
    try {
      return f();
    } catch (...) {
      detail::rethrow_current(core().step, core().restore_point, before, place,
                              [&] { return explain(f); });
    }
  }

  std::shared_ptr<Core> core_;
};

// These stand outside of the class, so that `extern template` leaves them to one file of several.
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

template <class Model, class... Values>
Trainer(Model, Values...) -> Trainer<Model, Values...>;
template <class Maker, class... Values>
  requires detail::maker<Maker>
Trainer(Maker, Values...) -> Trainer<typename detail::made_by<Maker>::type, Values...>;

}  // namespace ikebana
