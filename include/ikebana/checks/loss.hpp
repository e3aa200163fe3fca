#pragma once
// Checks whether the objective can compute a loss from a model and a batch. The check is made where
// the type of a batch is first known: an error from inside a step would be hard to read.
#include <ikebana/core/core.hpp>

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

/// Why no loss can be computed from this batch; `refuse::Nothing` if one can. An objective may make
/// the check itself, by a member `refusal<Run, Model, Batch>()`.
template <class Core, class Batch>
using loss_diagnosis_t = typename decltype(loss_diagnosis<Core, Batch>())::type;

/// The same, and why its count cannot be called: what `step` asks before its first microbatch.
template <class Core, class Batch>
consteval auto step_diagnosis() {
  using Objective = decltype(std::declval<Core&>().mechanisms.objective);
  using Model = handle_of_t<typename Core::Model>;
  if constexpr (!refuse::passed<loss_diagnosis_t<Core, Batch>>)
    return refuse::is<loss_diagnosis_t<Core, Batch>>{};
  else if constexpr (requires { Objective::template count_refusal<Model, Batch>(); })
    return Objective::template count_refusal<Model, Batch>();
  else return refuse::is<refuse::Nothing>{};
}
template <class Core, class Batch>
using step_diagnosis_t = typename decltype(step_diagnosis<Core, Batch>())::type;

}  // namespace ikebana::detail
