#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/evaluate.hpp>
#include <set>
#include <string_view>

namespace ikebana::detail {

IKEBANA_INLINE void check_metric_names(const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (names[i] == names[j])
        throw BadValue("evaluate: two metrics have the name `" + names[i] +
                       "`. Give each a name of its own.");
}

IKEBANA_INLINE void check_value_names(const MetricValues& values) {
  std::set<std::string_view> names;
  for (const auto& [name, value] : values)
    if (!names.insert(name).second)
      throw BadValue("evaluate: two numbers of metrics have the name `" + name +
                     "`. Give the metrics other names.");
}

IKEBANA_INLINE EvaluatedSoFar::EvaluatedSoFar(EachMetric metrics) {
  metrics([&](const ErasedMetric& metric) { metrics_.push_back(metric.initial()); });
}

IKEBANA_INLINE EvaluatedSoFar::~EvaluatedSoFar() = default;

IKEBANA_INLINE void EvaluatedSoFar::add(const void* batch, const PartLosses& losses) {
  losses.add_to(sums_);
  if (metrics_.empty()) return;
  const at::Tensor outputs = losses.outputs();
  for (const auto& metric : metrics_) metric.update(batch, outputs);
}

IKEBANA_INLINE Evaluation EvaluatedSoFar::result(RankGroup* ranks) {
  if (ranks != nullptr) sums_.sum_over(*ranks);
  if (!(sums_.count() > 0))
    throw BadBatch(
        "evaluate: the loader gave nothing to count. Give it at least one batch with a target.");
  Evaluation evaluation{sums_.mean(), sums_.count(), {}};
  for (const auto& metric : metrics_) {
    if (ranks != nullptr) metric.reduce(*ranks);
    for (auto& named : metric.values()) evaluation.metrics.push_back(std::move(named));
  }
  check_value_names(evaluation.metrics);
  return evaluation;
}

IKEBANA_INLINE Evaluation in_evaluation_mode(torch::nn::Module& model,
                                             c10::function_ref<void()> open,
                                             c10::function_ref<Evaluation()> evaluate) {
  const c10::InferenceMode no_inference(false);  // what a model keeps is used in later steps
  const at::NoGradGuard no_grad;
  open();
  const EvaluationMode mode(model);
  return evaluate();
}

}  // namespace ikebana::detail
