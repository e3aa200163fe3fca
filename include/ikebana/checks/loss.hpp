#pragma once
// Checks whether the objective can compute a loss from a model and a batch. The check is made where
// the type of a batch is first known: an error from inside a step would be hard to read.
#include <ikebana/core/core.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/evaluate/range_of.hpp>
#include <ikebana/grammar/refuse_batch.hpp>
#include <ikebana/grammar/refuse_loader.hpp>

namespace ikebana::detail {

/// The type of one microbatch of what `step` is given.
template <class Batch>
struct microbatch_of {
  using type = Batch;
};
template <class Range>
  requires Batches<const Range>
struct microbatch_of<Range> {
  using type = std::ranges::range_value_t<const Range>;
};
template <class Range>
inline constexpr bool makes_its_batches = false;
template <class Range>
  requires Batches<const Range>
inline constexpr bool makes_its_batches<Range> =
    !std::is_lvalue_reference_v<std::ranges::range_reference_t<const Range>>;
/// A batch with one field, a tensor: in a range of these, the microbatches are bare tensors.
using TensorAlone = std::tuple<at::Tensor>;

template <class Core, class Batch>
consteval auto loss_diagnosis() {
  using Objective = decltype(std::declval<Core&>().mechanisms.objective);
  using Model = handle_of_t<typename Core::Model>;
  using Run = ikebana::Run<Core>;
  constexpr bool fits = requires(Objective& o, Run& run, Model& model, const Batch& batch) {
    o.loss(run, model, batch);
  };
  if constexpr (requires { Objective::template refusal<Run, Model, Batch>(); })
    return Objective::template refusal<Run, Model, Batch>();
  else if constexpr (fits)
    return loss_refusal<decltype(std::declval<Objective&>().loss(
        std::declval<Run&>(), std::declval<Model&>(), std::declval<const Batch&>()))>();
  else
    return refuse::is<
        refuse::ObjectiveTakesOtherArguments<std::decay_t<decltype(Objective::values)>, Batch>>{};
}

/// Says why no loss can be computed from this batch; `refuse::Nothing` if one can. An objective may
/// make the check itself, by a member `refusal<Run, Model, Batch>()`.
template <class Core, class Batch>
using loss_diagnosis_t = typename decltype(loss_diagnosis<Core, Batch>())::type;
template <class Core, class Batch>
inline constexpr bool loss_takes = refuse::passed<loss_diagnosis_t<Core, Batch>>;

/// True if the loss takes the tensors of a range of `std::tuple<at::Tensor>`, and not the tuples.
template <class Core, class Batch>
inline constexpr bool takes_bare_tensors = false;
template <class Core, class Batch>
  requires(Batches<const Batch> && std::is_same_v<typename microbatch_of<Batch>::type, TensorAlone>)
inline constexpr bool takes_bare_tensors<Core, Batch> =
    !loss_takes<Core, TensorAlone> && loss_takes<Core, at::Tensor>;

/// True for a list of tensors, which is one batch, if the loss takes one tensor. For other batches
/// the loss of a tensor is not looked at: it may be a template that does not compile for one.
template <class Core, class Batch>
inline constexpr bool is_list_for_tensor = false;
template <class Core, ListOfTensors Batch>
inline constexpr bool is_list_for_tensor<Core, Batch> =
    !loss_takes<Core, Batch> && loss_takes<Core, at::Tensor>;

template <class T>
inline constexpr bool is_entry = false;
template <class Name, class Value>
inline constexpr bool is_entry<std::pair<const Name, Value>> = true;

template <class Core, class Batch, class Microbatch>
consteval auto batch_diagnosis() {
  if constexpr (BareTensors<Batch>) return refuse::is<refuse::OneBatchOrSeveral<Batch>>{};
  else if constexpr (any_inside<HidesTensors, Microbatch>())
    return refuse::is<refuse::TensorsOutOfSight<Microbatch>>{};
  else if constexpr (any_inside<RefersToTensors, Microbatch>())
    return refuse::is<refuse::TensorsOfOthers<Microbatch>>{};
  else if constexpr (takes_bare_tensors<Core, Batch>) return refuse::is<refuse::Nothing>{};
  else if constexpr (is_list_for_tensor<Core, Batch>)
    return refuse::is<refuse::ListIsOneBatch<Batch>>{};
  else return loss_diagnosis<Core, Microbatch>();
}

/// Says why the batches of a loader cannot be evaluated. A range of batches cannot: to a step its
/// elements are the batches, and here all of it would be one. An entry of a map is a part of a
/// batch.
template <class Core, class Batch>
consteval auto evaluated_batch_diagnosis() {
  using Diagnosis = typename decltype(batch_diagnosis<Core, Batch, Batch>())::type;
  if constexpr (!refuse::passed<Diagnosis>) return refuse::is<Diagnosis>{};
  else if constexpr (Batches<const Batch> || is_entry<Batch>)
    return refuse::is<refuse::NotALoader<Batch>>{};
  else return refuse::is<refuse::Nothing>{};
}
template <class Core, class Loader, class... Metrics>
consteval auto evaluate_diagnosis() {
  using Batch = batch_of_t<Loader>;
  if constexpr (!has_batches<Loader>)
    return refuse::is<refuse::NoBatches<std::remove_cvref_t<Loader>>>{};
  else
    return refuse::first<typename decltype(evaluated_batch_diagnosis<Core, Batch>())::type,
                         metric_diagnosis_t<Metrics, Batch>...>{};
}
template <class Core, class Loader, class... Metrics>
using evaluate_diagnosis_t =
    typename decltype(evaluate_diagnosis<Core, Loader, Metrics...>())::type;

/// Says why `step` cannot be given this batch or range of batches. `step` also calls the count,
/// before the first microbatch. `Others` must be empty.
template <class Core, class Batch, class... Others>
consteval auto step_diagnosis() {
  using Objective = decltype(std::declval<Core&>().mechanisms.objective);
  using Model = handle_of_t<typename Core::Model>;
  using Microbatch = std::conditional_t<takes_bare_tensors<Core, Batch>, at::Tensor,
                                        typename microbatch_of<Batch>::type>;
  using Diagnosis = typename decltype(batch_diagnosis<Core, Batch, Microbatch>())::type;
  if constexpr (sizeof...(Others) > 0) return refuse::is<refuse::BatchInParts<Batch, Others...>>{};
  else if constexpr (!refuse::passed<Diagnosis>) return refuse::is<Diagnosis>{};
  else if constexpr (requires { Objective::template count_refusal<Model, Microbatch>(); })
    return Objective::template count_refusal<Model, Microbatch>();
  else return refuse::is<refuse::Nothing>{};
}
template <class Core, class Batch, class... Others>
using step_diagnosis_t = typename decltype(step_diagnosis<Core, Batch, Others...>())::type;

/// Returns what `step` was given, with bare tensors for `std::tuple<at::Tensor>` if the loss takes
/// them. If a step may be repeated, a range that makes its batches while they are read is read
/// once, and its batches are kept.
template <class Core, class Batch>
decltype(auto) unwrapped(const Batch& batch) {
  if constexpr (takes_bare_tensors<Core, Batch>) {
    Microbatches<at::Tensor> tensors;
    for (const TensorAlone& one : batch) tensors.push_back(std::get<0>(one));
    return tensors;
  } else if constexpr (makes_its_batches<Batch> && Core::fits_memory) {
    Microbatches<typename microbatch_of<Batch>::type> batches;
    for (auto&& one : batch) batches.push_back(std::forward<decltype(one)>(one));
    return batches;
  } else {
    return (batch);
  }
}

}  // namespace ikebana::detail
