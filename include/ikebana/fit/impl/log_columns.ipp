#pragma once
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/fit/log_columns.hpp>

namespace ikebana {

namespace detail {

inline void add_loss(LogRow& row, const Report& report) {
  row.emplace_back("loss", report.loss());
  for (const auto& part : report.value.parts)
    if (!part.name.empty()) row.emplace_back(part.name, report.term(part.name));
}

inline void add_rates(LogRow& row, const Report& report) {
  row.emplace_back("lr", report.learning_rate);
  const auto& rates = report.learning_rates;
  for (std::size_t i = 0; rates.size() > 1 && i < rates.size(); ++i)
    row.emplace_back("lr." + std::to_string(i), rates[i]);
  if (auto norm = report.grad_norm()) row.emplace_back("grad_norm", *norm);
}

inline void add_memory(LogRow& row, const Report& report) {
  auto add = [&](const char* name, std::int64_t value) {
    row.emplace_back(name, static_cast<double>(value));
  };
  if (report.peak_bytes) add("peak_bytes", *report.peak_bytes);
  if (report.undone) add("microbatches", report.microbatches), add("undone", *report.undone);
  if (!report.offloaded) return;
  const OffloadTraffic& traffic = *report.offloaded;
  add("offload_activations_out", traffic.activations_out);
  add("offload_activations_back", traffic.activations_back);
  add("offload_parameters_back", traffic.parameters_back);
  add("offload_gradients_out", traffic.gradients_out);
  add("offload_copies_out", traffic.copies_out), add("offload_copies_back", traffic.copies_back);
  add("offload_peak_stored", traffic.peak_stored);
}

inline void add_throughput(LogRow& row, const StepThroughput& step) {
  row.emplace_back("items_per_second", step.items_per_second());
  row.emplace_back("flops_per_second", step.flops_per_second());
  row.emplace_back("share_of_bound", step.share_of_bound());
}

/// On a device, `seconds` is the time in which the host started the step, so items per second would
/// be too high, unless Observe<Throughput> measures them.
inline void add_speed(LogRow& row, const Report& report) {
  row.emplace_back("count", report.count());
  const auto& parts = report.value.parts;
  if (report.throughput) add_throughput(row, *report.throughput);
  else if (!parts.empty() && parts[0].sum.device().is_cpu())
    row.emplace_back("items_per_second", report.count() / report.seconds);
  row.emplace_back("skipped", report.skipped());
  row.emplace_back("seconds", report.seconds);
}

inline void add_phases(LogRow& row, const Report& report) {
  if (!report.phases) return;
  for (const auto& [name, seconds] : phase_fields)
    row.emplace_back(std::string("seconds_") + name, (*report.phases).*seconds);
}

inline void add_position(LogRow& row, const Report& report) {
  if (!report.position) return;
  row.emplace_back("epoch", static_cast<double>(report.position->epoch));
  row.emplace_back("batch", static_cast<double>(report.position->batch));
}

inline void add_validation(LogRow& row, const Evaluation& evaluation) {
  row.emplace_back("val_loss", evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) row.emplace_back("val_" + name, value);
}

inline void check_names(const LogRow& row) {
  std::vector<std::string> names;
  for (const auto& item : row) names.push_back(item.first);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw Error("report: a term of the loss has the name `" + *twice +
                "`, which another column of a log has. Rename it in Loss::terms of the model.");
}

IKEBANA_INLINE std::optional<double> find_column(const LogRow& row, const std::string& name) {
  for (const auto& [known, value] : row)
    if (known == name) return value;
  return std::nullopt;
}

}  // namespace detail

IKEBANA_INLINE LogRow columns_of(const Report& report) {
  LogRow row{{"step", static_cast<double>(report.step)}};
  detail::add_loss(row, report);
  detail::add_rates(row, report);
  detail::add_memory(row, report);
  detail::add_speed(row, report);
  detail::add_phases(row, report);
  detail::add_position(row, report);
  detail::check_names(row);
  return row;
}

IKEBANA_INLINE LogRow columns_of(const Validation& validation) {
  LogRow row{{"step", static_cast<double>(validation.step)},
             {"epoch", static_cast<double>(validation.epoch)}};
  detail::add_validation(row, validation);
  return row;
}

IKEBANA_INLINE LogRow columns_of(const Epoch& epoch) {
  LogRow row{{"epoch", static_cast<double>(epoch.epoch)},
             {"steps", static_cast<double>(epoch.steps)},
             {"loss", epoch.loss},
             {"seconds", epoch.seconds}};
  for (const auto& [name, value] : epoch.train_metrics) row.emplace_back("train_" + name, value);
  if (epoch.validation) detail::add_validation(row, *epoch.validation);
  return row;
}

}  // namespace ikebana
