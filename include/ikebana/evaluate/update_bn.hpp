#pragma once
// The statistics of batch norm for the weights that are evaluated, such as their average.
#include <ikebana/core/around_step.hpp>
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/core/placement.hpp>
#include <ikebana/evaluate/batch_norms.hpp>
#include <ikebana/evaluate/range_of.hpp>
#include <ikebana/grammar/refuse_loader.hpp>

namespace ikebana {

namespace detail {

/// Where parameters are cut, a forward is a call of the ranks that share them: each batch is one of
/// all these ranks.
template <class Ranks>
void take_turn(Ranks& ranks, bool has_batch) {
  if (ranks.slices().size() == 1) return;
  const std::string own = has_batch ? "a batch" : "the end";
  for (const std::string& other : exchange_in(ranks.slices(), "update_bn", own))
    if (other != own)
      throw BadBatch("update_bn: this rank is at " + own + ", and another one at " + other +
                     ". Their parameters are cut, so that they compute together: give every rank "
                     "the same number of batches.");
}

/// Computes the loss of each batch that `visit` passes on, in training mode, without gradients.
/// Returns how many there were.
template <class Batch, class Core, class Visit>
double run_batches(Core& core, const Visit& visit) {
  const c10::InferenceMode no_inference(false);  // what a model keeps is used in later steps
  const at::NoGradGuard no_grad;
  const TrainingMode mode(*module_of(core.model));
  auto ranks = core.ranks();
  Run run(core, /*evaluating=*/true);
  double batches = 0;
  visit([&](const Batch& batch) {
    if constexpr (!Core::one_rank) take_turn(ranks, /*has_batch=*/true);
    Placement placement(core.device);
    auto& m = core.mechanisms;
    const Batch on_device = placement.place(m.device, m.layout, batch);
    rows(on_device);  // throws for an empty batch
    core.loss(run, on_device);
    ++batches;
  });
  if constexpr (!Core::one_rank) take_turn(ranks, /*has_batch=*/false);
  return batches;
}

template <class Batch, class Core, class Visit>
void update_bn(Core& core, const Visit& visit) {
  core.check_model();
  const BatchNorms norms(*module_of(core.model));
  if (norms.empty())
    throw BadModel(
        "update_bn: the model has no batch norm of LibTorch's that tracks statistics, so there is "
        "nothing to compute. Remove the call.");
  auto compute = [&] {
    FreshStatistics statistics(norms, *module_of(core.model));
    double batches = run_batches<Batch>(core, visit);
    if constexpr (!Core::one_rank)
      batches = norms.average_over(core.ranks().data(), batches, core.device);
    if (batches == 0) throw BadBatch("update_bn: the loader gave no batch. Give it data.");
    statistics.keep();
  };
  auto& average = core.mechanisms.average;
  if constexpr (requires { average.around_statistics(core.parameters, Tensors(), compute); })
    average.around_statistics(core.parameters, norms.buffers(), compute);
  else average.around_evaluation(core.parameters, compute);
}

}  // namespace detail

}  // namespace ikebana
