#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/curve_items.hpp>
#include <ikebana/state/archive.hpp>
#include <limits>
#include <sstream>

namespace ikebana::detail {

/// Counts (2, C, bins): negative and positive items of each column by the bin of their scores,
/// which are probabilities. Bin i begins at the threshold i / (bins - 1).
inline at::Tensor bin_counts(const ScoredBatch& batch, std::int64_t bins) {
  const at::Tensor& scores = batch.scores;
  const std::int64_t columns = scores.size(1);
  const at::Tensor column = at::arange(columns, scores.options().dtype(at::kLong));
  at::Tensor positive = batch.target.values, counted = batch.target.counted;
  if (positive.dim() == 1)
    positive = positive.unsqueeze(1) == column, counted = counted.unsqueeze(1).expand_as(scores);
  const at::Tensor level = (scores * static_cast<double>(bins - 1)).floor().clamp(0, bins - 1);
  const at::Tensor bin = at::nan_to_num(level).to(at::kLong);
  const at::Tensor index = (positive.to(at::kLong) * columns + column) * bins + bin;
  return occurrences(index, counted, 2 * columns * bins).reshape({2, columns, bins});
}

IKEBANA_INLINE void CurveItems::add(const std::string& metric, ScoredBatch batch,
                                    std::int64_t thresholds) {
  if (thresholds < 0 || thresholds == 1)
    throw BadValue("metric `" + metric + "`: thresholds is " + std::to_string(thresholds) +
                   ". Give it 2 or more, or 0 for the exact value.");
  const Faults faults(batch);
  faults.check_now(metric);
  if (thresholds > 0) return sums_.add(metric, {faults.all(), bin_counts(batch, thresholds)});
  keep(metric, batch);
  sums_.add(metric, {faults.all()});
}

IKEBANA_INLINE void CurveItems::keep(const std::string& metric, const ScoredBatch& batch) {
  const auto& [values, counted, wrong] = batch.target;
  const bool has_classes = values.dim() == 1;
  const at::Tensor marked = at::where(counted, values, -1).to(has_classes ? at::kInt : at::kChar);
  const at::Tensor targets = marked.to(at::kCPU), scores = batch.scores.detach().to(at::kCPU);
  if (!scores_.empty() && scores_[0].size(1) != scores.size(1))
    throw BadBatch("metric `" + metric + "`: the outputs of a batch have " +
                   std::to_string(scores.size(1)) + " columns, and those before had " +
                   std::to_string(scores_[0].size(1)) +
                   ". Give all batches of an evaluation the same classes or labels.");
  const at::Tensor used = has_classes ? targets >= 0 : (targets >= 0).any(1);
  scores_.push_back(scores.index({used})), targets_.push_back(targets.index({used}));
}

IKEBANA_INLINE void CurveItems::check(const std::string& metric, bool from_logits) const {
  Faults::check(metric, sums_, 0);
  Faults::check_logits(metric, sums_[0], from_logits);
}

IKEBANA_INLINE std::int64_t CurveItems::columns() const {
  return has_bins() ? sums_[1].size(1) : scores_.at(0).size(1);
}

IKEBANA_INLINE CurvePoints CurveItems::points(std::int64_t column) const {
  if (has_bins()) {
    const at::Tensor counts = sums_.on_host(1).select(1, column).flip(1).cumsum(1);
    return {counts[1], counts[0]};
  }
  const bool has_classes = targets_.at(0).dim() == 1;
  std::vector<at::Tensor> all_scores, all_targets;
  for (const at::Tensor& t : scores_) all_scores.push_back(t.select(1, column));
  for (const at::Tensor& t : targets_) all_targets.push_back(has_classes ? t : t.select(1, column));
  const at::Tensor scores = at::cat(all_scores), own = at::cat(all_targets), used = own >= 0;
  const at::Tensor positive = (own == (has_classes ? column : 1)).index({used});
  const auto [sorted, order] = scores.index({used}).sort(0, /*descending=*/true);
  const std::int64_t n = sorted.size(0);
  at::Tensor is_last = at::ones({n}, at::kBool);  // the last item of equal scores
  if (n > 1)
    is_last.narrow(0, 0, n - 1).copy_(sorted.narrow(0, 0, n - 1) != sorted.narrow(0, 1, n - 1));
  const at::Tensor is_positive = positive.index({order}).to(at::kDouble);
  return {is_positive.cumsum(0).index({is_last}), (1 - is_positive).cumsum(0).index({is_last})};
}

/// The items of a rank as a text: dtypes and sizes, and then the bytes of both tensors.
inline std::string text_of_items(const at::Tensor& scores, const at::Tensor& targets) {
  std::ostringstream text;
  text << static_cast<int>(scores.scalar_type()) << ' ' << scores.size(0) << ' ' << scores.size(1)
       << ' ' << static_cast<int>(targets.scalar_type()) << ' ' << targets.dim() << '\n';
  for (const at::Tensor& t : {scores.contiguous(), targets.contiguous()})
    text.write(static_cast<const char*>(t.const_data_ptr()),
               static_cast<std::streamsize>(t.nbytes()));
  return text.str();
}

inline std::pair<at::Tensor, at::Tensor> items_of_text(const std::string& all) {
  std::istringstream text(all);
  int scores_dtype = 0, targets_dtype = 0;
  std::int64_t rows = 0, columns = 0, dim = 0;
  text >> scores_dtype >> rows >> columns >> targets_dtype >> dim;
  text.ignore();
  std::vector<std::int64_t> sizes{rows, columns};
  const at::Tensor scores = at::empty(sizes, static_cast<at::ScalarType>(scores_dtype));
  sizes.resize(static_cast<std::size_t>(dim));
  const at::Tensor targets = at::empty(sizes, static_cast<at::ScalarType>(targets_dtype));
  for (const at::Tensor& t : {scores, targets})
    text.read(static_cast<char*>(t.mutable_data_ptr()), static_cast<std::streamsize>(t.nbytes()));
  return {scores, targets};
}

IKEBANA_INLINE void CurveItems::reduce(const std::string& metric, RankGroup& ranks) {
  sums_.reduce(metric, ranks);  // ranks know then that all have bins, or none
  if (has_bins() || sums_.empty()) return;
  join();
  const std::string own = scores_.empty() ? std::string() : text_of_items(scores_[0], targets_[0]);
  scores_.clear(), targets_.clear();
  for (const auto& text : exchange_in(ranks, "metric `" + metric + "`, its items", own)) {
    if (text.empty()) continue;
    auto [scores, targets] = items_of_text(text);
    if (!scores_.empty() && scores.size(1) != scores_[0].size(1))
      throw BadModel("metric `" + metric +
                     "`: ranks have outputs with other numbers of classes. Evaluate the same model "
                     "on all ranks.");
    scores_.push_back(scores), targets_.push_back(targets);
  }
}

IKEBANA_INLINE void CurveItems::join() {
  if (scores_.size() < 2) return;
  scores_ = {at::cat(scores_)}, targets_ = {at::cat(targets_)};
}

IKEBANA_INLINE void CurveItems::state(Archive& archive, bool has_bins, std::int64_t target_dim) {
  if (has_bins) return sums_.state(archive, {{"faults", at::kLong, 1}, {"bins", at::kLong, 3}});
  const bool is_there = archive.saving() ? !sums_.empty() : archive.has("faults");
  sums_.state(archive, {{"faults", at::kLong, 1}});
  if (archive.loading()) scores_.clear(), targets_.clear();
  if (!is_there) return;
  join();
  at::Tensor scores = scores_.empty() ? at::Tensor() : scores_[0];
  at::Tensor targets = targets_.empty() ? at::Tensor() : targets_[0];
  const std::vector<std::int64_t> sizes(static_cast<std::size_t>(target_dim), 0);
  for (const char* name : {"scores", "targets"})
    if (archive.checking() && !archive.has(name)) archive.add_missing(name);
  archive_sum(archive, "scores", scores, at::empty({0, 0}, at::kFloat));
  archive_sum(archive, "targets", targets,
              at::empty(sizes, target_dim == 1 ? at::kInt : at::kChar));
  if (archive.loading()) scores_ = {scores}, targets_ = {targets};
}

/// Returns the logits of labels, or, for bins, their probabilities.
template <class Task>
ScoredBatch label_scores(const MetricInput& in, const Task& task, bool has_bins) {
  ScoredBatch batch = read_scores(in, task);
  if (has_bins && task.from_logits) batch.scores = batch.scores.sigmoid();
  return batch;
}

IKEBANA_INLINE ScoredBatch curve_scores(const MetricInput& in, const Binary& task, bool has_bins) {
  return label_scores(in, task, has_bins);
}

IKEBANA_INLINE ScoredBatch curve_scores(const MetricInput& in, const Multilabel& task,
                                        bool has_bins) {
  return label_scores(in, task, has_bins);
}

IKEBANA_INLINE ScoredBatch curve_scores(const MetricInput& in, const Multiclass& task,
                                        bool has_bins) {
  ScoredBatch batch = read_scores(in, task);
  if (task.from_logits)
    batch.scores = has_bins ? batch.scores.softmax(1) : batch.scores.log_softmax(1);
  return batch;
}

inline double last_of(const at::Tensor& t) { return t.numel() > 0 ? t[-1].item<double>() : 0; }

IKEBANA_INLINE double area_under_roc(const CurvePoints& points) {
  const auto& [positives, negatives] = points;
  const double all = last_of(positives) * last_of(negatives);
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  const at::Tensor before = at::constant_pad_nd(positives.slice(0, 0, -1), {1, 0});
  const at::Tensor steps = negatives - at::constant_pad_nd(negatives.slice(0, 0, -1), {1, 0});
  return (steps * (positives + before)).sum().item<double>() / (2 * all);
}

IKEBANA_INLINE double average_precision(const CurvePoints& points) {
  const auto& [positives, negatives] = points;
  const double all = last_of(positives);
  if (all == 0) return std::numeric_limits<double>::quiet_NaN();
  const at::Tensor steps = positives - at::constant_pad_nd(positives.slice(0, 0, -1), {1, 0});
  const at::Tensor precision =
      positives / (positives + negatives).clamp_min(1);  // bins may be empty
  return (steps * precision).sum().item<double>() / all;
}

}  // namespace ikebana::detail
