#pragma once
// `update_bn`: computes the statistics of batch norm for the weights that are evaluated, such as
// their average.
#include <ikebana/core/around_step.hpp>
#include <ikebana/core/evaluation_mode.hpp>
#include <ikebana/core/placement.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/running_statistics.hpp>
#include <ikebana/error.hpp>
#include <ikebana/evaluate/range_of.hpp>
#include <ikebana/grammar/refuse_loader.hpp>
#include <ikebana/ranks/rank_group.hpp>
#include <utility>
#include <vector>

namespace ikebana::detail {

/// The batch norms of a model that track statistics, of LibTorch and of modules/.
class BatchNorms {
 public:
  explicit BatchNorms(torch::nn::Module& root);
  bool empty() const { return all_.empty(); }
  /// Returns every buffer that is computed again. A buffer that several batch norms share appears
  /// once.
  std::vector<at::Tensor> buffers() const;
  /// Averages over ranks, of which each has the mean over its own `batches` batches. Returns the
  /// number of all batches.
  template <class Group>
  double average_over(Group& ranks, double batches, c10::Device device) const {
    const at::Tensor count = at::full({}, batches, at::dtype(at::kDouble).device(device));
    const double total = number(ranks.sum(count));
    for (const at::Tensor& t : buffers())
      if (t.is_floating_point()) t.copy_(ranks.sum(t.to(at::kDouble) * batches) / total);
      else t.copy_(ranks.sum(t));
    return total;
  }

 private:
  friend class FreshStatistics;
  template <class BatchNorm>
  void add(torch::nn::Module& module) {
    if (auto* norm = module.as<BatchNorm>()) add(RunningStatistics::of(*norm));
  }
  void add(RunningStatistics one);

  std::vector<RunningStatistics> all_;
};

/// RAII: resets the statistics, which become the average of all batches while the object exists. At
/// its end, restores momenta and all other buffers, and the former statistics unless `keep` was
/// called.
class FreshStatistics {
 public:
  FreshStatistics(const BatchNorms& norms, torch::nn::Module& root);
  ~FreshStatistics();
  FreshStatistics(const FreshStatistics&) = delete;
  FreshStatistics& operator=(const FreshStatistics&) = delete;
  void keep() noexcept { is_kept_ = true; }

 private:
  using Copies = std::vector<std::pair<at::Tensor, at::Tensor>>;
  bool is_statistic(const at::Tensor& buffer) const;

  const BatchNorms& norms_;
  Copies statistics_, others_;
  std::vector<std::optional<double>> momenta_;
  bool is_kept_ = false;
};

}  // namespace ikebana::detail

namespace ikebana {

namespace detail {

/// Checks that ranks that share parameters have a batch at the same time. If parameters are cut,
/// these ranks must call forward together.
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
/// Returns the number of batches.
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

#ifndef IKEBANA_COMPILED
#include <ikebana/evaluate/impl/update_bn.ipp>
#endif
