#pragma once
// Evaluates a model: its loss and metrics over a data set.
#include <ikebana/core/around_step.hpp>
#include <ikebana/core/placement.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/evaluate/over_ranks.hpp>

namespace ikebana {

namespace detail {

/// RAII: sets every module to evaluation mode, and restores each module's own mode.
class EvaluationMode {
 public:
  explicit EvaluationMode(torch::nn::Module& root) {
    for (auto& module : root.modules()) modes_.emplace_back(module, module->is_training());
    root.eval();
  }
  ~EvaluationMode() {  // parents before children, because train() also sets the children
    for (auto& [module, training] : modes_) module->train(training);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::pair<std::shared_ptr<torch::nn::Module>, bool>> modes_;
};

/// Sums a loss over batches, in double precision, on the device.
class LossSums {
 public:
  void add(const Loss& loss) {
    const std::size_t before = sums_.size();
    if (before == 0) check_term_names(loss);
    std::size_t i = 0;
    each_term(loss, [&](const std::string& name, const at::Tensor& sum, const Count& count,
                        double scale) { add(i++, name, sum, count, scale); });
    check_term_count(before, i, "batch");
  }
  /// The sums and counts of all ranks.
  void sum_over(RankGroup& ranks) {
    std::vector<at::Tensor> all;
    for (const Sum& s : sums_)
      all.push_back(s.sum), all.push_back(s.count.tensor(s.sum, at::kDouble));
    ranks.sum(all);
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i].sum = all[2 * i], sums_[i].count = all[2 * i + 1];
  }
  void sum_over(const OneRankGroup&) {}
  /// Waits for the device. Throws BadBatch for a term whose count is 0.
  double mean() const {
    double mean = 0;
    for (const Sum& s : sums_) {
      if (!(s.count.value() > 0))
        throw BadBatch("evaluate: " + term_text(s.name) + "count is " + c10::str(s.count.value()) +
                       " over all batches. Evaluate batches with items of each term.");
      mean += s.scale * s.sum.item<double>() / s.count.value();
    }
    return mean;
  }
  double count() const { return sums_.empty() ? 0 : sums_[0].count.value(); }

 private:
  struct Sum {
    std::string name;
    at::Tensor sum;
    Count count;
    double scale;
  };
  void add(std::size_t i, const std::string& name, const at::Tensor& sum, const Count& count,
           double scale) {
    if (i == sums_.size()) return sums_.push_back({name, sum.to(at::kDouble), count, scale});
    if (sums_[i].name != name || sums_[i].scale != scale)
      throw BadModel("evaluate: term " + std::to_string(i) + " is `" + name + "` with scale " +
                     c10::str(scale) + ", and was `" + sums_[i].name + "` with scale " +
                     c10::str(sums_[i].scale) +
                     " in a batch before. Return the same terms for all batches.");
    sums_[i].sum = sums_[i].sum + sum.to(at::kDouble);
    sums_[i].count += count;
  }
  std::vector<Sum> sums_;
};

/// Throws BadValue where two metrics have one name, by which their values are found.
template <class Metrics>
void check_metric_names(const Metrics& metrics) {
  for (std::size_t i = 0; i < metrics.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (metrics[i].name() == metrics[j].name())
        throw BadValue("evaluate: two metrics have the name `" + metrics[i].name() +
                       "`. Give each a name of its own.");
}

}  // namespace detail

namespace detail {

template <class Core, class Visit, class Metrics>
Evaluation evaluate_all(Core& core, const Visit& visit, const Metrics& metrics) {
  core.check_model();
  check_metric_names(metrics);
  at::NoGradGuard no_grad;
  auto& m = core.mechanisms;
  m.shard.open_step();
  auto ranks = m.shard.ranks();
  EvaluationMode mode(*module_of(core.model));
  Run run(core, /*evaluating=*/true);
  LossSums sums;
  Metrics evaluated;
  for (const auto& metric : metrics) evaluated.push_back(metric.initial());
  BatchTurns turns(ranks);
  auto one_batch = [&](const auto& batch) {
    turns.begin();
    Placement placement(core.device);
    auto on_device = placement.place(m.device, batch);
    rows(on_device);  // throws for an empty batch
    Loss loss = core.loss(run, on_device);
    sums.add(loss);
    for (const auto& metric : evaluated) metric.update(on_device, loss.outputs);
  };
  m.average.around_evaluation(core.parameters, [&] {
    visit(one_batch);
    turns.end();
  });
  sums.sum_over(ranks.data());
  if (!(sums.count() > 0))
    throw BadBatch(
        "evaluate: the loader gave nothing to count. Give it at least one batch with a target.");
  Evaluation evaluation{sums.mean(), sums.count(), {}};
  for (const auto& metric : evaluated) {
    metric.reduce(ranks.data());
    evaluation.metrics.emplace_back(metric.name(), metric.value());
  }
  return evaluation;
}

}  // namespace detail

/// Evaluates each batch that `visit` passes to its argument, without cutting it into microbatches,
/// and with averaged weights if the recipe averages them. Waits for the device at the end. Throws
/// BadBatch if there is nothing to count. Several ranks evaluate their own batches, and each
/// returns the figures of all.
template <class Core, class Visit, class Metrics>
Evaluation evaluate(Core& core, const Visit& visit, const Metrics& metrics) {
  return detail::reported_to_ranks(core,
                                   [&] { return detail::evaluate_all(core, visit, metrics); });
}

}  // namespace ikebana
