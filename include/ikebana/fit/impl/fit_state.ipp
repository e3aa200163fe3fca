#pragma once
#include <cmath>
#include <ikebana/bridge/copy_stream.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/fit_state.hpp>

namespace ikebana::detail {

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
  saved_epochs_ = saved_epochs(archive);
  archive.number("epoch", epoch, &count_range), archive.number("batch", batch, &of_epoch);
  archive.number("steps", steps, &count_range), archive.number("loss_sum", loss_sum);
  archive.number("best", best);
  archive.within("best_rule", [&] { archive_best_rule(archive); });
  archive.within("early_stopping", [&] { stopper.state(archive); });
  if (archive.loading()) sum_on_device_.reset();
  if (archive.loading()) history = {std::vector<Epoch>(static_cast<std::size_t>(epoch))};
  archive.within("history", [&] { archive_history(archive); });
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

IKEBANA_INLINE std::int64_t FitState::saved_epochs(const Archive& archive) const {
  const at::Tensor* saved = archive.find_like("epoch", at::scalar_tensor(0, at::kLong));
  return saved && !archive.saving() ? saved->item<std::int64_t>() : epoch;
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
  for (const auto& name : metrics)
    if (const std::string full = "metrics." + name; archive.saving() || archive.has(full))
      archive_validation(archive, full,
                         [&](Evaluation& v) -> double& { return find_or_add_metric(v, name); });
}

IKEBANA_INLINE double& FitState::find_or_add_metric(Evaluation& evaluation,
                                                    const std::string& name) {
  for (auto& [known, value] : evaluation.metrics)
    if (known == name) return value;
  return evaluation.metrics.emplace_back(name, std::numeric_limits<double>::quiet_NaN()).second;
}

}  // namespace ikebana::detail
