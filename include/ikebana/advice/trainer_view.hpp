#pragma once
// Defines a view of a trainer without its type, so that code about its memory is compiled once for
// all recipes.
#include <functional>
#include <ikebana/advice/savings.hpp>
#include <ikebana/batch/kinds.hpp>
#include <ikebana/batch/rows.hpp>
#include <ikebana/core/step_state.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/run/dry_listener.hpp>
#include <ikebana/run/parameter_bytes.hpp>

namespace ikebana::detail {

/// The effects of a recipe's policies on memory.
struct RecipeFacts {
  bool offloads = false;  ///< the recipe has a policy on offload
  bool offloads_masters =
      false;  ///< parameters, gradients and the optimizer's state are stored elsewhere
  bool offloads_to_file = false;  ///< whether the files are on a disk
  bool checkpoints = false;
  bool is_adamw = false;
  bool can_count_microbatches = false;  ///< Accumulate<N> or none, and not InBackward
  bool updates_in_backward = false;
  bool can_run_dry = false;  ///< no policy needs other ranks for a dry step
  bool shards_nothing = false, is_ddp = false;
};

/// The parts of a trainer that concern its memory. Refers to the trainer.
struct TrainerView {
  StepState& step;
  const Masters& masters;
  const UnitTable& units;
  c10::Device device;
  ExplainedStep& explained;
  RecipeFacts recipe;
  std::string optimizer = {};  ///< its name
  std::int64_t rank = 0, ranks = 1;
  std::function<void(Archive&)> state = {};       ///< visits all state that is saved
  std::function<std::string()> signature = {};    ///< the values of the policies
  std::function<std::int64_t()> gathered = {};    ///< null if parameters stay in place
  std::function<void(Report&)> end_offload = {};  ///< null if nothing is offloaded
  std::function<void()> repeat_failed = {};  ///< makes the last failed attempt again; may be null
  std::function<void()> pretend_ranks = {};  ///< null on one rank

  std::int64_t gathered_bytes() const { return gathered ? gathered() : 0; }
};

/// The tensors of a batch.
struct BatchView {
  std::vector<at::Tensor> tensors = {};
  std::int64_t rows = 0;  ///< 0 if they are not known, and for a range of batches
  bool is_range = false;
};

template <class Policy, class M>
inline constexpr bool carries_out_policy =
    std::is_same_v<std::decay_t<decltype(M::values)>, Policy>;

template <class Core>
constexpr RecipeFacts recipe_facts() {
  using M = std::decay_t<decltype(std::declval<Core&>().mechanisms)>;
  using Offloads = std::decay_t<decltype(std::declval<M&>().offload)>;
  using Shards = std::decay_t<decltype(std::declval<M&>().shard)>;
  RecipeFacts facts;
  facts.offloads = !carries_out_policy<Offload<Off>, Offloads>;
  facts.offloads_masters = requires { Offloads::offloads_masters; };
  facts.offloads_to_file = requires(Offloads m) { m.values.folder; };
  facts.checkpoints = !carries_out_policy<Checkpoint<Off>, decltype(M::checkpoint)>;
  facts.is_adamw = carries_out_policy<AdamW, decltype(M::optimizer)>;
  facts.updates_in_backward = Core::Optimizer::updates_in_backward;
  facts.can_count_microbatches = !Core::fits_memory && !facts.updates_in_backward;
  facts.can_run_dry = can_run_dry<Core>;
  facts.shards_nothing = carries_out_policy<Shard<Off>, Shards>;
  facts.is_ddp = carries_out_policy<Shard<DDP>, Shards>;
  return facts;
}

template <class Core>
TrainerView view_of(Core& core) {
  constexpr RecipeFacts recipe = recipe_facts<Core>();
  TrainerView view{
      .step = core.step,
      .masters = core.parameters.masters(),
      .units = core.units,
      .device = core.device,
      .explained = core.explained,
      .recipe = recipe,
      .optimizer = type_name<std::decay_t<decltype(core.mechanisms.optimizer.values)>>(),
      .state = [&core](Archive& archive) { core.state(archive); },
      .signature = [&core] { return c10::str(core.signature()); }};
  if constexpr (std::decay_t<decltype(core.mechanisms)>::moves_parameters)
    view.gathered = [&core] { return gathered_bytes(core); };
  if constexpr (recipe.offloads)
    view.end_offload = [&core](Report& report) {
      core.mechanisms.offload.end_step(core.step.gradients, report);
    };
  if constexpr (requires { core.mechanisms.accumulate.repeat_failed(); })
    view.repeat_failed = [&core] { core.mechanisms.accumulate.repeat_failed(); };
  if constexpr (!Core::one_rank) {
    auto ranks = core.ranks();
    view.rank = ranks.data().rank(), view.ranks = ranks.data().size();
    if constexpr (recipe.can_run_dry)
      view.pretend_ranks = [&core] { core.mechanisms.shard.pretend_ranks(); };
  }
  return view;
}

template <class Batch>
BatchView batch_view(const Batch& batch) {
  BatchView view{.is_range = Batches<const Batch>};
  for_each_tensor(batch, [&](const at::Tensor& t) {
    if (t.defined()) view.tensors.push_back(t);
  });
  if constexpr (!Batches<const Batch>) {
    CountRows count;
    for_each_field<batch_dim<Batch>>(batch, count);
    view.rows = std::max<std::int64_t>(count.rows(), 0);
  }
  return view;
}

}  // namespace ikebana::detail
