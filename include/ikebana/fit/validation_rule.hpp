#pragma once
// Rules that compare validations: by the loss or a metric, whose smallest or largest
// value is the best. `KeepBest` and `EarlyStopping` are such rules.
#include <algorithm>
#include <ikebana/error.hpp>
#include <ikebana/report.hpp>

namespace ikebana::detail {

/// Returns whether a number of an Evaluation can be one of these metrics: it has the name of one,
/// or of a part of one, as `recall.0`.
inline bool is_of_metrics(const std::string& name, const std::vector<std::string>& metrics) {
  return std::any_of(metrics.begin(), metrics.end(), [&](const std::string& metric) {
    return name == metric || name.starts_with(metric + ".");
  });
}
template <class Rule>
bool smallest_is_best(const Rule& rule) {
  return rule.mode != Rule::max;
}
/// Returns the value that a rule compares. Throws Error for a metric that the validation does not
/// have.
template <class Rule>
double value_by(const Rule& rule, const Evaluation& evaluation) {
  return rule.metric.empty() ? evaluation.loss : evaluation[rule.metric];
}
/// Names a rule in a saved state, as `min.loss` or `max.accuracy`. Values of two rules are not
/// compared.
template <class Rule>
std::string text_of_rule(const Rule& rule) {
  return (smallest_is_best(rule) ? "min." : "max.") +
         (rule.metric.empty() ? std::string("loss") : rule.metric);
}
/// Throws BadValue if these FitSettings have no validation, or do not compute the rule's metric.
/// `option` and `type` are spelled as the user writes them: `keep_best`, `KeepBest`.
template <class Options, class Rule>
void check_rule(const Options& options, const Rule& rule, const std::string& option,
                const std::string& type) {
  if (!options.validate)
    throw BadValue("fit: " + option +
                   " chooses by validation, and there is no validation. Give validate, or leave " +
                   option + " out.");
  if (rule.metric.empty()) return;
  const std::string names = "fit: " + option + " names the metric `" + rule.metric + "`, ";
  if (!rule.mode)
    throw BadValue(names + "and not which of its values is the best. Give it .mode = " + type +
                   "::max, or " + type + "::min.");
  if (!is_of_metrics(rule.metric, options.metrics))
    throw BadValue(names + "which is not among metrics. Add it to metrics.");
}

}  // namespace ikebana::detail
