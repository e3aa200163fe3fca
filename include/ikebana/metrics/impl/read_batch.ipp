#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/read_batch.hpp>

namespace ikebana::detail {

/// So many outputs in [0, 1] are no accident of logits.
inline constexpr double surely_probabilities = 32;

inline std::string shapes_of(const MetricInput& in) {
  return "metric `" + in.metric + "`: outputs of shape " + c10::str(in.outputs.sizes()) +
         " and targets of shape " + c10::str(in.target.sizes());
}

/// Returns scores in a dtype that their comparisons and sums do not round. Throws BadBatch if they
/// are integers.
inline at::Tensor floating_scores(const MetricInput& in) {
  const auto dtype = in.outputs.scalar_type();
  if (!at::isFloatingType(dtype))
    throw BadBatch("metric `" + in.metric + "`: outputs of dtype " + c10::str(dtype) +
                   " are no scores. Give it the model's logits or probabilities.");
  const at::Tensor scores = in.outputs.detach();  // the sums must not keep a graph
  return dtype == at::kDouble ? scores : scores.to(at::kFloat);
}

/// Returns the score above which an output is positive.
template <class Task>
double cut_of(const MetricInput& in, const Task& task) {
  const double t = task.threshold;
  if (!(t > 0 && t < 1))
    throw BadValue("metric `" + in.metric + "`: threshold is " + c10::str(t) +
                   "; it is a probability and must lie between 0 and 1.");
  return task.from_logits ? std::log(t / (1 - t)) : t;
}

inline at::Tensor none_of(const at::Tensor& like) {
  return at::zeros({}, like.options().dtype(at::kLong));
}

IKEBANA_INLINE ReadTarget read_classes(const MetricInput& in, std::int64_t classes) {
  const at::Tensor t = as_classes(in.target);
  if (t.scalar_type() != at::kLong)
    throw BadBatch("metric `" + in.metric + "`: targets of dtype " + c10::str(t.scalar_type()) +
                   " are no class indices. Give indices of dtype Long.");
  const at::Tensor is_class = (t >= 0) & (t < classes), ignored = t == in.ignore_index;
  const at::Tensor counted = is_class & ~ignored;
  return {at::where(counted, t, 0), counted, (~(is_class | ignored)).sum()};
}

IKEBANA_INLINE ReadTarget read_zeros_and_ones(const MetricInput& in, const at::Tensor& target) {
  const at::Tensor t = as_classes(target), positive = t == 1, ignored = t == in.ignore_index;
  const at::Tensor counted = (positive | (t == 0)) & ~ignored;
  return {(positive & counted).to(at::kLong), counted, (~(counted | ignored)).sum()};
}

/// Reads the scores and targets of a task with labels, both (n, L).
inline ScoredBatch scored_labels(const MetricInput& in, const at::Tensor& scores,
                                 const at::Tensor& target) {
  ScoredBatch batch{scores, read_zeros_and_ones(in, target), {}, {}};
  const at::Tensor& counted = batch.target.counted;
  batch.unlikely = (((scores < 0) | (scores > 1)) & counted).sum();
  batch.nan = (scores.isnan() & counted).sum();
  return batch;
}

IKEBANA_INLINE ScoredBatch read_scores(const MetricInput& in, const Binary&) {
  at::Tensor scores = floating_scores(in);
  const bool has_column = scores.dim() == in.target.dim() + 1 && scores.size(-1) == 1;
  if (has_column) scores = scores.squeeze(-1);
  if (scores.sizes() != in.target.sizes())
    throw BadBatch(shapes_of(in) +
                   " do not fit. Give one score per target; for one score of each class write "
                   "Multiclass, and Multilabel for one of each label.");
  return scored_labels(in, scores.reshape({-1, 1}), in.target.reshape({-1, 1}));
}

IKEBANA_INLINE ScoredBatch read_scores(const MetricInput& in, const Multilabel&) {
  const at::Tensor scores = floating_scores(in);
  if (scores.sizes() != in.target.sizes() || scores.dim() < 2)
    throw BadBatch(shapes_of(in) +
                   " do not fit. Give one score and one target of 0 or 1 per label, both of shape "
                   "(N, labels, ...).");
  auto rows = [&](const at::Tensor& t) { return t.movedim(1, -1).reshape({-1, t.size(1)}); };
  return scored_labels(in, rows(scores), rows(in.target));
}

/// Returns the dimension of the classes.
inline std::int64_t checked_class_dim(const MetricInput& in, const Multiclass& task) {
  const std::int64_t dim =
      class_dim("metric `" + in.metric + "`", in.holder, task.dim, in.outputs, in.target);
  const std::int64_t classes = in.outputs.size(dim);
  if (classes == 1)
    throw BadBatch(shapes_of(in) +
                   " have one class, which is always the largest. Give one score per class; for a "
                   "single score write Binary.");
  if (task.num_classes > 0 && task.num_classes != classes)
    throw BadBatch(shapes_of(in) + " have " + std::to_string(classes) +
                   " classes, and num_classes is " + std::to_string(task.num_classes) +
                   ". Leave it out, since scores show the number of classes.");
  return dim;
}

IKEBANA_INLINE ScoredBatch read_scores(const MetricInput& in, const Multiclass& task) {
  const at::Tensor all = floating_scores(in);
  const std::int64_t dim = checked_class_dim(in, task), classes = all.size(dim);
  const at::Tensor scores = all.movedim(dim, -1).reshape({-1, classes});
  ReadTarget target = read_classes(in, classes);
  target.values = target.values.reshape(-1), target.counted = target.counted.reshape(-1);
  const at::Tensor& counted = target.counted;
  const at::Tensor lowest = scores.amin(1);  // NaN if one is
  const at::Tensor unlikely = (lowest < 0) | ((scores.sum(1) - 1).abs() > 1e-2);
  return {scores, target, (unlikely & counted).sum(), (lowest.isnan() & counted).sum()};
}

/// Returns the predictions of a task with labels.
template <class Task>
PredictedBatch predicted_labels(const MetricInput& in, const Task& task) {
  const double cut = cut_of(in, task);
  const ScoredBatch batch = read_scores(in, task);
  return {(batch.scores > cut).to(at::kLong), batch.target, batch.scores.size(1), batch.unlikely,
          batch.nan};
}

IKEBANA_INLINE PredictedBatch read_predictions(const MetricInput& in, const Binary& task) {
  return predicted_labels(in, task);
}

IKEBANA_INLINE PredictedBatch read_predictions(const MetricInput& in, const Multilabel& task) {
  return predicted_labels(in, task);
}

/// Reads outputs that are predicted classes.
inline PredictedBatch given_predictions(const MetricInput& in, std::int64_t classes) {
  if (classes <= 0)
    throw BadBatch("metric `" + in.metric +
                   "`: its outputs are predicted classes, which do not show how many classes "
                   "there are. Write Multiclass{.num_classes = n}, or give scores.");
  if (in.outputs.sizes() != in.target.sizes())
    throw BadBatch(shapes_of(in) + " do not fit. Give one predicted class per target.");
  ReadTarget target = read_classes(in, classes);
  const at::Tensor p = as_classes(in.outputs), is_class = (p >= 0) & (p < classes);
  target.wrong = target.wrong + (target.counted & ~is_class).sum();
  target.counted = target.counted & is_class;
  const at::Tensor none = none_of(target.wrong);
  return {at::where(target.counted, p, 0), target, classes, none, none};
}

IKEBANA_INLINE PredictedBatch read_predictions(const MetricInput& in, const Multiclass& task) {
  if (at::isIntegralType(in.outputs.scalar_type(), /*includeBool=*/true))
    return given_predictions(in, task.num_classes);
  const std::int64_t dim = checked_class_dim(in, task), classes = in.outputs.size(dim);
  const auto [largest, predicted] = in.outputs.detach().max(dim);
  const ReadTarget target = read_classes(in, classes);
  const at::Tensor nan = (largest.isnan() & target.counted).sum();
  return {predicted, target, classes, none_of(nan), nan};
}

/// Returns an option that names the task.
inline MetricOption task_option(double index) {
  return {"task", index, {"Binary", "Multiclass", "Multilabel"}};
}
template <class Task>
std::vector<MetricOption> label_options(double index, const Task& task,
                                        std::vector<MetricOption> others) {
  for (const MetricOption& one : {task_option(index), MetricOption{"threshold", task.threshold},
                                  MetricOption{"from_logits", double(task.from_logits)}})
    others.push_back(one);
  return others;
}

IKEBANA_INLINE std::vector<MetricOption> task_options(const Binary& task,
                                                      std::vector<MetricOption> others) {
  return label_options(0, task, std::move(others));
}

IKEBANA_INLINE std::vector<MetricOption> task_options(const Multilabel& task,
                                                      std::vector<MetricOption> others) {
  return label_options(2, task, std::move(others));
}

IKEBANA_INLINE std::vector<MetricOption> task_options(const Multiclass& task,
                                                      std::vector<MetricOption> others) {
  for (const MetricOption& one :
       {task_option(1), option_of("dim", task.dim), option_of("num_classes", task.num_classes),
        MetricOption{"from_logits", double(task.from_logits)}})
    others.push_back(one);
  return others;
}

IKEBANA_INLINE at::Tensor occurrences(const at::Tensor& index, const at::Tensor& counted,
                                      std::int64_t size) {
  const at::Tensor flat = at::where(counted, index, size).reshape(-1);
  const at::Tensor ones = at::ones({}, flat.options()).expand_as(flat);
  return at::zeros({size + 1}, flat.options()).scatter_add_(0, flat, ones).narrow(0, 0, size);
}

/// Throws for wrong targets and NaN outputs. `all` is on the host.
inline void refuse_faults(const std::string& metric, const at::Tensor& all) {
  const auto wrong = all[0].item<std::int64_t>(), nan = all[1].item<std::int64_t>();
  if (wrong > 0)
    throw BadBatch("metric `" + metric + "`: " + std::to_string(wrong) +
                   " targets or predicted classes are not possible: classes count from 0 and are "
                   "below the number of classes, labels are 0 or 1. Correct them, or give targets "
                   "that do not count ignore_index.");
  if (nan > 0)
    throw NonFinite("metric `" + metric + "`: " + std::to_string(nan) +
                    " outputs are NaN, which has no place in an order. Look for where the model "
                    "computes NaN.");
}

IKEBANA_INLINE void Faults::check_now(const std::string& metric) const {
  if (all_.is_cpu()) refuse_faults(metric, all_);
}

IKEBANA_INLINE void Faults::check(const std::string& metric, const MetricSums& sums,
                                  std::size_t i) {
  if (!sums.empty()) refuse_faults(metric, sums[i].to(at::kCPU));
  if (sums.empty() || sums[i][3].item<std::int64_t>() == 0)
    throw Error("metric `" + metric +
                "`: there was no target to count. Evaluate batches with targets.");
}

IKEBANA_INLINE bool Faults::are_probabilities(const at::Tensor& all) {
  return all[2].item<double>() == 0 && all[3].item<double>() >= surely_probabilities;
}

IKEBANA_INLINE void Faults::check_logits(const std::string& metric, const at::Tensor& all,
                                         bool from_logits) {
  if (from_logits && are_probabilities(all))
    throw Error("metric `" + metric +
                "`: its outputs are declared to be logits, and all of them are as probabilities "
                "are. Write `.task = {.from_logits = false}`, or give it logits.");
  if (const auto others = all[2].item<std::int64_t>(); !from_logits && others > 0)
    throw Error("metric `" + metric + "`: its outputs are declared to be probabilities, and " +
                std::to_string(others) +
                " are not: they lie outside of [0, 1], or those of an item do not add up to 1. "
                "Write `.task = {.from_logits = true}`, or give it probabilities.");
}

}  // namespace ikebana::detail
