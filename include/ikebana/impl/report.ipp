#pragma once
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/report.hpp>

namespace ikebana {

IKEBANA_INLINE bool detail::is_given(double number) {
  return std::bit_cast<std::uint64_t>(number) != std::bit_cast<std::uint64_t>(not_given);
}

IKEBANA_INLINE std::string detail::throughput_text(const StepThroughput& step) {
  std::string text = short_number(step.items_per_second()) + " items/s";
  if (step.flops > 0) text += ", " + short_number(step.flops_per_second()) + "FLOP/s";
  if (step.flops > 0 && std::isfinite(step.bound))
    text += " (" + fixed(step.share_of_bound() * 100, 1) + " % of the matmul bound)";
  return text;
}

IKEBANA_INLINE double Report::loss() const {
  double read = detail::number(mean());
  if (must_be_finite && !std::isfinite(read))
    throw NonFinite("report: the loss is " + std::to_string(read) +
                    (skipped() ? "; the parameters were not updated. Lower the learning rate or "
                                 "check the batch."
                               : ", and the step made its update: the precision of the recipe "
                                 "does not check the loss, or sum / count overflows. Check the "
                                 "batch, and load an earlier state."));
  return read;
}

IKEBANA_INLINE double Report::term(const std::string& name) const {
  for (const auto& part : value.parts)
    if (!name.empty() && part.name == name) return detail::number(part.sum) / part.count.value();
  throw Error("report: no term `" + name + "`. Name it in Loss::terms of the model.");
}

IKEBANA_INLINE std::optional<double> Report::grad_norm() const {
  return norm.defined() ? std::optional(detail::number(norm)) : std::nullopt;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const Report& report) {
  out << "step " << report.step << "  loss " << detail::number(report.mean());
  for (const auto& part : report.value.parts)
    if (!part.name.empty()) out << "  " << part.name << ' ' << report.term(part.name);
  out << "  lr " << report.learning_rate;
  if (auto norm = report.grad_norm()) out << "  grad norm " << *norm;
  if (report.peak_bytes) out << "  peak " << *report.peak_bytes / 1048576 << " MiB";
  if (report.throughput) out << "  " << detail::throughput_text(*report.throughput);
  if (report.undone.value_or(0) > 0)
    out << "  " << report.microbatches << " microbatches after " << *report.undone
        << " attempts that ran out of memory";
  if (report.skipped()) out << "  skipped";
  return out << "  " << report.seconds * 1e3 << " ms";
}

IKEBANA_INLINE double Evaluation::operator[](const std::string& name) const {
  for (const auto& [known, value] : metrics)
    if (known == name) return value;
  throw Error("evaluation: there is no metric `" + name + "`. Pass it to evaluate or fit.");
}

IKEBANA_INLINE double Epoch::train_metric(const std::string& name) const {
  for (const auto& [known, value] : train_metrics)
    if (known == name) return value;
  throw Error("epoch: there is no train metric `" + name +
              "`. Give it to fit, as .train_metrics = {Accuracy{}}; `validation` has the metrics "
              "of the validation.");
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const Epoch& epoch) {
  out << "epoch " << epoch.epoch << "  loss " << epoch.loss;
  for (const auto& [name, value] : epoch.train_metrics) out << "  train_" << name << ' ' << value;
  if (epoch.validation) {
    out << "  val_loss " << epoch.validation->loss;
    for (const auto& [name, value] : epoch.validation->metrics)
      out << "  val_" << name << ' ' << value;
  }
  if (detail::is_given(epoch.seconds)) out << "  " << epoch.seconds << " s";
  return out;
}

IKEBANA_INLINE std::ostream& operator<<(std::ostream& out, const Evaluation& evaluation) {
  out << "loss " << evaluation.loss;
  for (const auto& [name, value] : evaluation.metrics) out << "  " << name << ' ' << value;
  return out;
}

}  // namespace ikebana
