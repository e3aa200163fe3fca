#pragma once
#include <cmath>
#include <ikebana/bridge/copy_stream.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/fit_state.hpp>
#include <ikebana/fit/validation_rule.hpp>

namespace ikebana::detail {

/// Returns a count as the state has it, or, while it is saved, as it is.
inline std::int64_t saved_count(const Archive& archive, const char* name, std::int64_t present) {
  const at::Tensor* saved = archive.find_like(name, at::scalar_tensor(0, at::kLong));
  return saved && !archive.saving() ? saved->item<std::int64_t>() : present;
}

IKEBANA_INLINE void FitState::add(const Report& report) {
  ++steps;
  if (!bridge::has_copy_streams(report.value.parts[0].sum.device())) {
    loss_sum += report.loss();
    return;
  }
  const at::Tensor loss = report.mean().to(at::kDouble);
  if (!sum_on_device_.defined()) sum_on_device_ = scalar(loss_sum, at::kDouble, loss.device());
  sum_on_device_ = sum_on_device_ + loss;
  must_be_finite_ = report.must_be_finite;
}

IKEBANA_INLINE void FitState::begin_next_epoch() {
  ++epoch, batch = steps = 0, loss_sum = 0, sum_on_device_.reset();
  train_metrics.begin_epoch();
}

IKEBANA_INLINE void FitState::read_losses() {
  if (!sum_on_device_.defined()) return;
  loss_sum = number(sum_on_device_);
  if (must_be_finite_ && !std::isfinite(loss_sum))
    throw NonFinite(
        "fit: the loss of the last steps is not finite; these made no update. Lower the learning "
        "rate or check the batches.");
}

IKEBANA_INLINE void FitState::state(Archive& archive) {
  read_losses();
  archive.constant("batches_per_step", batches_per_step);
  archive.constant("batches", batches);
  const NumberRange of_epoch{0, batches < 0 ? count_range.max : static_cast<double>(batches), true,
                             "a number of batches of an epoch"};
  saved_epochs_ = saved_count(archive, "epoch", epoch);
  const bool is_within_epoch = saved_count(archive, "steps", steps) > 0;
  archive.number("epoch", epoch, &count_range), archive.number("batch", batch, &of_epoch);
  archive.number("steps", steps, &count_range), archive.number("loss_sum", loss_sum);
  archive.number("best", best);
  archive.within("best_rule", [&] { archive_best_rule(archive); });
  archive.within("early_stopping", [&] { stopper.state(archive); });
  if (archive.loading()) sum_on_device_.reset();
  if (archive.loading()) history = {std::vector<Epoch>(static_cast<std::size_t>(epoch))};
  if (archive.loading()) train_metrics.begin_epoch();
  if (is_within_epoch) archive.within("train_metrics", [&] { train_metrics.state(archive); });
  archive.within("history", [&] { archive_history(archive); });
  archive.within("validations", [&] { archive_validations(archive); });
}

IKEBANA_INLINE std::int64_t FitState::all_steps() const {
  std::int64_t sum = steps;
  for (std::size_t e = 0; e < static_cast<std::size_t>(epoch); ++e) sum += history[e].steps;
  return sum;
}

IKEBANA_INLINE void FitState::number_epochs(std::int64_t made) {
  std::int64_t next = made - all_steps();
  for (std::size_t e = 0; e < static_cast<std::size_t>(epoch); ++e)
    history[e].last_step = (next += history[e].steps) - 1;
}

IKEBANA_INLINE Epoch& FitState::current_epoch() {
  read_losses();
  if (static_cast<std::int64_t>(history.size()) == epoch) history.emplace_back();
  history.back().epoch = epoch;
  history.back().steps = steps;
  if (steps > 0) history.back().loss = loss_sum / static_cast<double>(steps);
  return history.back();
}

IKEBANA_INLINE void FitState::archive_best_rule(Archive& archive) {
  double is_rule = 1;
  if (archive.saving() && !best_rule.empty()) return archive.number(best_rule, is_rule);
  for (const std::string& saved : archive.names()) {
    archive.ignore(saved);
    if (archive.loading() && best_rule.empty()) best_rule = saved;
    if (!best_rule.empty() && saved != best_rule)
      archive.add_mismatch(saved, "was how keep_best chose, here it is `" + best_rule + "`");
  }
}

IKEBANA_INLINE void FitState::archive_history(Archive& archive) {
  for (std::size_t e = 0; e < history.size(); ++e) history[e].epoch = static_cast<std::int64_t>(e);
  archive_column(
      archive, "steps", [](Epoch& e) { return static_cast<double>(e.steps); },
      [](Epoch& e, double value) { e.steps = static_cast<std::int64_t>(value); }, &count_range);
  archive_column(
      archive, "loss", [](Epoch& e) { return e.loss; },
      [](Epoch& e, double value) { e.loss = value; });
  archive_column(
      archive, "validated", [](Epoch& e) { return e.validation ? 1.0 : 0.0; },
      [](Epoch& e, double value) {
        if (value != 0) e.validation.emplace();
      });
  archive_validation(archive, "validation.loss", [](Evaluation& v) -> double& { return v.loss; });
  archive_validation(archive, "validation.count", [](Evaluation& v) -> double& { return v.count; });
  auto of_validation = [](const Epoch& e) {
    return e.validation ? &e.validation->metrics : nullptr;
  };
  for (const auto& name : metric_names(archive, "metrics.", metrics, of_validation))
    archive_validation(archive, "metrics." + name,
                       [&](Evaluation& v) -> double& { return find_or_add(v.metrics, name); });
  auto of_training = [](const Epoch& e) { return &e.train_metrics; };
  for (const auto& name :
       metric_names(archive, "train_metrics.", train_metrics.names(), of_training))
    archive_column(
        archive, "train_metrics." + name,
        [&](Epoch& e) { return find_or_not_given(e.train_metrics, name); },
        [&](Epoch& e, double value) {
          if (is_given(value)) find_or_add(e.train_metrics, name) = value;
        });
}

IKEBANA_INLINE std::vector<std::string> FitState::metric_names(
    const Archive& archive, const std::string& prefix, const std::vector<std::string>& given,
    c10::function_ref<const MetricValues*(const Epoch&)> values_of) const {
  std::vector<std::string> known, names;
  for (const auto& saved : archive.saving() ? std::vector<std::string>() : archive.names())
    if (saved.starts_with(prefix)) known.push_back(saved.substr(prefix.size()));
  for (const Epoch& e : history)
    if (const MetricValues* values = archive.saving() ? values_of(e) : nullptr)
      for (const auto& [name, value] : *values) known.push_back(name);
  for (const auto& metric : given)  // in the order in which they were given
    for (const auto& name : known)
      if (is_of_metrics(name, {metric}) &&
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

IKEBANA_INLINE void FitState::archive_validations(Archive& archive) {
  auto& all = history.validations;
  if (archive.saving() ? all.empty() : !archive.has("step")) return;
  const auto* count = archive.find_like("size", at::scalar_tensor(0, at::kLong));
  auto length = count && !archive.saving() ? count->item<std::int64_t>() : std::ssize(all);
  archive.number("size", length, &count_range);
  if (archive.loading()) all.assign(static_cast<std::size_t>(length), {});
  auto column = [&](const std::string& name, const NumberRange* range, auto field) {
    std::vector<double> values;
    for (Validation& v : all) values.push_back(static_cast<double>(field(v)));
    archive.list(name, values, length, range);
    for (std::size_t i = 0; archive.loading() && i < std::min(values.size(), all.size()); ++i) {
      auto& target = field(all[i]);
      target = static_cast<std::remove_reference_t<decltype(target)>>(values[i]);
    }
  };
  column("step", &count_range, [](Validation& v) -> std::int64_t& { return v.step; });
  column("epoch", &count_range, [](Validation& v) -> std::int64_t& { return v.epoch; });
  column("loss", nullptr, [](Validation& v) -> double& { return v.loss; });
  column("count", nullptr, [](Validation& v) -> double& { return v.count; });
  for (const auto& name : metrics)
    if (const std::string full = "metrics." + name; archive.saving() || archive.has(full))
      column(full, nullptr, [&](Validation& v) -> double& { return find_or_add(v.metrics, name); });
}

IKEBANA_INLINE double& FitState::find_or_add(MetricValues& values, const std::string& name) {
  for (auto& [known, value] : values)
    if (known == name) return value;
  return values.emplace_back(name, std::numeric_limits<double>::quiet_NaN()).second;
}

IKEBANA_INLINE double FitState::find_or_not_given(const MetricValues& values,
                                                  const std::string& name) {
  for (const auto& [known, value] : values)
    if (known == name) return value;
  return not_given;
}

}  // namespace ikebana::detail
