#pragma once
// Replaces a trainer whose recipe was refused, so that the refusal is the only error.
#include <ikebana/checks/recipe.hpp>
#include <ikebana/evaluate/evaluate.hpp>
#include <ikebana/fit/fit.hpp>
#include <ikebana/state/files/safetensors_writer.hpp>
#include <ikebana/state/save_and_load.hpp>

namespace ikebana {

template <class ModelT, class... Policies>
class Trainer;

namespace detail {

template <class Model, class... Policies>
concept refused = !refuse::passed<recipe_diagnosis_t<Model, Policies...>>;

}  // namespace detail

/// The base class is the diagnosis, whose instantiation is the error. The methods take what a legal
/// trainer's methods take, and have no definition.
template <class ModelT, class... Policies>
  requires detail::refused<ModelT, Policies...>
class Trainer<ModelT, Policies...> : detail::recipe_diagnosis_t<ModelT, Policies...> {
 public:
  using Model = ModelT;
  using Recipe = Composed<>;
  using Handle = typename std::conditional_t<refuse::module_type<Model>, detail::handle_of<Model>,
                                             std::type_identity<Model>>::type;

  template <class... Any>
  explicit Trainer(Any&&...) {}
  template <class Batch, class... Others>
  Report step(const Batch&, const Others&...);
  Report step(const std::pair<at::Tensor, at::Tensor>&);
  template <class Batch>
  std::optional<Report> join_step(const Batch&);
  template <class Loader, class... Metrics>
  Evaluation evaluate(Loader&&, Metrics...);
  template <class... Given>
  at::Tensor predict(Given&&...);
  template <class Loader, class Options = FitOptions<detail::batch_of_t<Loader>>>
  History fit(Loader&&, const Options& = {});
  template <class Policy>
  Policy& get();
  template <class Policy>
  Mechanism<Policy>& mechanism();
  Handle& model();
  std::int64_t steps() const;
  void set_position(std::optional<BatchPosition>);
  StateDict state(const StateParts& = {});
  StateDict state_view(const StateParts& = {});
  void restore(const StateDict&, const StateParts& = {});
  void save(const std::filesystem::path&, const StateParts& = {});
  PendingSave save_async(const std::filesystem::path&, const StateParts& = {});
  void save_full(const std::filesystem::path&, const StateParts& = {});
  void load(const std::filesystem::path&, const StateParts& = {});
  Metadata metadata();
  UnmatchedWeights load_weights(const std::filesystem::path&, const WeightOptions& = {});
  void save_weights(const std::filesystem::path&, const WeightOptions& = {});
  template <class F>
  auto with_full_weights(F&& f, const FullWeightOptions& = {}) -> decltype(f(model()));
  template <class F>
  auto with_averaged_weights(F&& f) -> decltype(f(model()));
  template <class F>
  void replace_weights(F&& f);
  template <class Loader>
  void update_bn(Loader&&);
  void end_epoch(const Epoch&);
  std::string describe();
};

}  // namespace ikebana
