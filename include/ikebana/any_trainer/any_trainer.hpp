#pragma once
// Defines a trainer whose recipe is chosen at run time. Each recipe is compiled once, in the file
// that makes an AnyTrainer of it; code that only uses an AnyTrainer compiles no recipe.
#include <ikebana/checks/loss.hpp>
#include <ikebana/grammar/refuse_batch.hpp>
#include <ikebana/trainer.hpp>
#include <tuple>
#include <type_traits>
#include <typeinfo>

namespace ikebana {

namespace detail {

/// The type of a microbatch in a vector: `std::tuple<at::Tensor>` for a bare tensor.
template <class Batch>
using given_microbatch = std::conditional_t<std::is_same_v<Batch, at::Tensor>, TensorAlone, Batch>;

template <class Range>
using range_diagnosis_t =
    std::conditional_t<BareTensors<Range>, refuse::OneBatchOrSeveral<Range>, refuse::Nothing>;

/// Copies the batches of any range, and takes bare tensors out of their tuples.
template <class Batch, class Range>
Microbatches<Batch> microbatches(const Range& batches) {
  Microbatches<Batch> all;
  for (const auto& batch : batches) {
    if constexpr (std::is_convertible_v<decltype(batch), const Batch&>) all.push_back(batch);
    else all.push_back(std::get<0>(batch));
  }
  return all;
}

}  // namespace detail

/// Any trainer for batches of one type, with the types of its model and recipe erased. Gives the
/// same bits as the trainer that it is made from. Costs one virtual call per method. Can be moved.
template <class Batch>
class AnyTrainer : public SaveAndLoad<AnyTrainer<Batch>> {
 public:
  /// The type in which `model()` returns the model, and functions are given it.
  using Handle = std::shared_ptr<torch::nn::Module>;
  /// The function that `with_full_weights` and `replace_weights` call.
  using UseModel = std::function<void(const Handle&)>;

  /// Takes over a trainer, which is moved from; its recipe is compiled here.
  template <class Model, class... Policies>
  AnyTrainer(Trainer<Model, Policies...> trainer)
      : methods_(std::make_unique<Implementation<Model, Policies...>>(std::move(trainer))) {}

  /// Makes one update from one batch, which is cut into the recipe's microbatches, or from a range
  /// of batches, each of which is one microbatch. What counts as one batch is as for Trainer::step.
  Report step(const Batch& batch) { return methods().step(batch); }
  Report step(const std::vector<detail::given_microbatch<Batch>>& batches) {
    return methods().step(detail::microbatches<Batch>(batches));
  }
  template <class Range>
    requires(detail::Batches<const Range> && !std::is_convertible_v<const Range&, const Batch&>)
  Report step(const Range& batches) {
    using Diagnosis = detail::range_diagnosis_t<Range>;
    (void)sizeof(Diagnosis);
    if constexpr (refuse::passed<Diagnosis>)
      return methods().step(detail::microbatches<Batch>(batches));
    else return {};
  }
  Report step(const std::vector<at::Tensor>& batches)
    requires std::is_same_v<Batch, at::Tensor>
  {
    return (void)sizeof(refuse::ListIsOneBatch<std::vector<Batch>>), (void)batches, Report();
  }

  /// Takes part in the steps of other ranks if this rank has no batch any more, as
  /// Trainer::join_step.
  std::optional<Report> join_step(const Batch& like) {
    detail::Microbatches<Batch> one;
    one.push_back(like);
    return join_step(one);
  }
  std::optional<Report> join_step(const detail::Microbatches<Batch>& like) {
    return methods().join_step(like);
  }

  /// Returns the mean loss and the metrics over all batches of a loader, as Trainer::evaluate does.
  template <class Loader, class... Metrics>
  Evaluation evaluate(Loader&& loader, Metrics... metrics) {
    std::vector<Metric<Batch>> list;
    (detail::append(list, std::move(metrics)), ...);
    return methods().evaluate(BatchSource<Batch>(loader), list);
  }
  /// Returns the model's result for a batch, as Trainer::predict does. If the batch's target is
  /// undefined, it is the result for its input alone. Throws BadModel for a recipe whose model does
  /// not give one tensor.
  at::Tensor predict(const Batch& batch) { return methods().predict(batch); }
  /// Computes batch norm's statistics for the weights that are evaluated, as Trainer::update_bn.
  template <class Loader>
  void update_bn(Loader&& loader) {
    methods().update_bn(BatchSource<Batch>(loader));
  }
  /// Trains on a loader for some epochs, as Trainer::fit.
  template <class Loader>
  History fit(Loader&& loader, FitOptions<Batch> options = {}) {
    using Diagnosis = detail::source_diagnosis_t<Batch, Loader>;
    (void)sizeof(Diagnosis);
    auto end_this_epoch = [&](const Epoch& epoch) { end_epoch(epoch); };
    if constexpr (refuse::passed<Diagnosis>)
      return ikebana::fit(*this, detail::range_of(loader), options, end_this_epoch);
    else return {};
  }
  /// Ends an epoch, as Trainer::end_epoch; `fit` calls it.
  void end_epoch(const Epoch& epoch) { methods().end_epoch(epoch); }

  /// Loads what `state` returned, as Trainer::restore: throws BadState, and changes nothing, if it
  /// does not fit.
  void restore(const StateDict& state, const StateParts& parts = {}) {
    methods().restore(state, parts);
  }
  /// The whole recipe, as Trainer::describe.
  std::string describe() { return methods().describe(); }
  /// Steps so far, including skipped ones.
  std::int64_t steps() const { return methods().steps(); }
  /// Returns the number of ranks that train the model; 1 without `Shard`.
  std::int64_t world_size() const { return methods().world_size(); }
  /// Returns the index of this rank among them, from 0.
  std::int64_t rank() const { return methods().rank(); }
  /// Tells the other ranks of the present exception, as Trainer::report_exception.
  void report_exception() noexcept { methods().report_exception(); }
  /// Tells the other ranks, in the next step, whether this one wants to stop, as
  /// Trainer::agree_to_stop.
  StopWish agree_to_stop(StopWish wish) { return methods().agree_to_stop(wish); }
  /// Returns the wish of all ranks at once, as Trainer::agree_to_stop_now. All ranks call it.
  StopWish agree_to_stop_now(StopWish wish) { return methods().agree_to_stop_now(wish); }
  /// Returns the model, which the trainer still holds. While it trains, its parameters may lie
  /// elsewhere.
  Handle model() { return methods().model(); }
  /// Says where the batch of the next step lies in the data, for its report.
  void set_position(std::optional<BatchPosition> at) { methods().set_position(at); }
  /// Calls `use` while the model has plain, whole weights, as Trainer::with_full_weights.
  void with_full_weights(const UseModel& use, const FullWeightOptions& options = {}) {
    methods().with_full_weights(use, options);
  }
  /// Calls `use`, which may write other weights into the model, as Trainer::replace_weights.
  void replace_weights(const UseModel& use) { methods().replace_weights(use); }

  /// Returns the fields of a policy that the recipe names; null if it does not name it.
  template <class Policy>
  Policy* get_if() {
    return static_cast<Policy*>(methods().find(typeid(Policy)));
  }

 private:
  struct Methods {
    virtual ~Methods() = default;
    virtual Report step(const Batch&) = 0;
    virtual Report step(const detail::Microbatches<Batch>&) = 0;
    virtual std::optional<Report> join_step(const detail::Microbatches<Batch>&) = 0;
    virtual Evaluation evaluate(const BatchSource<Batch>&, const std::vector<Metric<Batch>>&) = 0;
    virtual at::Tensor predict(const Batch&) = 0;
    virtual void update_bn(const BatchSource<Batch>&) = 0;
    virtual void end_epoch(const Epoch&) = 0;
    virtual void restore(const StateDict&, const StateParts&) = 0;
    virtual detail::SavedTrainer& saved() = 0;
    virtual std::string describe() = 0;
    virtual std::int64_t steps() const = 0;
    virtual std::int64_t world_size() const = 0;
    virtual std::int64_t rank() const = 0;
    virtual void report_exception() noexcept = 0;
    virtual StopWish agree_to_stop(StopWish) = 0;
    virtual StopWish agree_to_stop_now(StopWish) = 0;
    virtual Handle model() = 0;
    virtual void set_position(std::optional<BatchPosition>) = 0;
    virtual void with_full_weights(const UseModel&, const FullWeightOptions&) = 0;
    virtual void replace_weights(const UseModel&) = 0;
    virtual void* find(const std::type_info&) = 0;
  };
  template <class Model, class... Policies>
  struct Implementation;

  template <class, class>
  friend class detail::SavedTrainerOf;

  Methods& methods() const {
    if (!methods_) throw Error("trainer: it was moved from. Use the trainer that it was moved to.");
    return *methods_;
  }

  // detail::SavedTrainer calls the methods below.
  std::string objective_without_outputs() { return methods().saved().objective_without_outputs(); }
  StateDict tensors(const StateParts& parts) { return methods().saved().tensors(parts); }
  RankState rank_state(const StateParts& parts) { return methods().saved().rank_state(parts); }
  StateRows rows_to_load(StateDict names) {
    return methods().saved().rows_to_load(std::move(names));
  }
  void restore_rows(RankState&& state, const StateParts& parts) {
    methods().saved().restore_rows(std::move(state), parts);
  }
  std::optional<Ranks> several_ranks() { return methods().saved().several_ranks(); }
  void together_or_not(const char* call, c10::function_ref<void()> f) {
    methods().saved().together_or_not(call, f);
  }

  std::unique_ptr<Methods> methods_;
};

template <class Batch>
template <class Model, class... Policies>
struct AnyTrainer<Batch>::Implementation final : Methods {
  using Trained = Trainer<Model, Policies...>;
  Trained trainer;
  detail::SavedTrainerOf<Trained> saved_trainer{trainer};
  explicit Implementation(Trained t) : trainer(std::move(t)) {}

  Report step(const Batch& batch) override { return trainer.step(batch); }
  Report step(const detail::Microbatches<Batch>& batches) override { return trainer.step(batches); }
  std::optional<Report> join_step(const detail::Microbatches<Batch>& like) override {
    return trainer.join_step(like);
  }
  Evaluation evaluate(const BatchSource<Batch>& source,
                      const std::vector<Metric<Batch>>& metrics) override {
    return trainer.evaluate(source, metrics);
  }
  at::Tensor predict(const Batch& batch) override {
    if constexpr (Trained::template predicts_tensor<Batch>()) return trainer.predict(batch);
    else
      throw BadModel("predict: the model of this recipe does not give one tensor for a " +
                     detail::type_name<Batch>() +
                     ". Call predict of its Trainer, whose result may be of any type.");
  }
  void update_bn(const BatchSource<Batch>& source) override { trainer.update_bn(source); }
  void end_epoch(const Epoch& epoch) override { trainer.end_epoch(epoch); }
  void restore(const StateDict& state, const StateParts& parts) override {
    trainer.restore(state, parts);
  }
  detail::SavedTrainer& saved() override { return saved_trainer; }
  std::string describe() override { return trainer.describe(); }
  std::int64_t steps() const override { return trainer.steps(); }
  std::int64_t world_size() const override { return trainer.world_size(); }
  std::int64_t rank() const override { return trainer.rank(); }
  void report_exception() noexcept override { trainer.report_exception(); }
  StopWish agree_to_stop(StopWish wish) override { return trainer.agree_to_stop(wish); }
  StopWish agree_to_stop_now(StopWish wish) override { return trainer.agree_to_stop_now(wish); }
  Handle model() override { return detail::module_of(trainer.model()); }
  void set_position(std::optional<BatchPosition> at) override { trainer.set_position(at); }
  void with_full_weights(const UseModel& use, const FullWeightOptions& options) override {
    trainer.with_full_weights([&](auto& m) { use(detail::module_of(m)); }, options);
  }
  void replace_weights(const UseModel& use) override {
    trainer.replace_weights([&](auto& m) { use(detail::module_of(m)); });
  }
  void* find(const std::type_info& type) override {
    void* found = nullptr;
    ((type == typeid(Policies) ? void(found = &trainer.template get<Policies>()) : void()), ...);
    return found;
  }
};

}  // namespace ikebana
