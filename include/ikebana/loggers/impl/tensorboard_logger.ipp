#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <ikebana/error.hpp>
#include <ikebana/loggers/tensorboard_logger.hpp>

namespace ikebana {

namespace detail {

/// The limits of TensorBoard's buckets, in ascending order.
inline std::vector<double> bucket_limits() {
  std::vector<double> positive;
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
  std::vector<double> all;
  for (auto at = positive.rbegin(); at != positive.rend(); ++at) all.push_back(-*at);
  all.push_back(0);
  all.insert(all.end(), positive.begin(), positive.end());
  return all;
}

/// Counts values between neighbouring limits. The last bucket has its upper limit, too.
inline std::vector<double> counts_between(const std::vector<double>& limits, const double* values,
                                          std::int64_t n) {
  std::vector<double> counts(limits.size() - 1);
  for (std::int64_t i = 0; i < n; ++i) {
    const double value = values[i];
    if (value < limits.front() || value > limits.back()) continue;
    const auto above = std::upper_bound(limits.begin(), limits.end() - 1, value);
    ++counts[static_cast<std::size_t>(above - limits.begin()) - 1];
  }
  return counts;
}

/// Keeps the buckets from the first to the last that has a value, and an empty one before them,
/// because a bucket is known by its upper limit alone.
inline void keep_used_buckets(Histogram& histogram) {
  auto& counts = histogram.buckets;
  auto is_used = [](double count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), is_used) - counts.begin();
  const auto end = counts.rend() - std::find_if(counts.rbegin(), counts.rend(), is_used);
  const auto limits = histogram.limits.begin();
  histogram.limits = std::vector<double>(limits + first, limits + end + 1);
  std::vector<double> used{0};
  used.insert(used.end(), counts.begin() + first, counts.begin() + end);
  counts = std::move(used);
}

IKEBANA_INLINE Histogram histogram_of(const at::Tensor& tensor, const std::string& tag) {
  const std::string where = "TensorBoardLogger: the histogram `" + tag + "` ";
  if (!tensor.defined() || tensor.numel() == 0)
    throw BadValue(where + "is of a tensor without elements. Leave it out.");
  const at::Tensor all = tensor.detach().to(at::kCPU, at::kDouble).flatten().contiguous();
  const at::Tensor finite = all.isfinite();
  if (const auto wrong = all.numel() - finite.sum().item<std::int64_t>(); wrong > 0)
    throw BadValue(where + "is of a tensor with " + std::to_string(wrong) +
                   " elements that are not finite. Leave them out: tensor[tensor.isfinite()].");
  Histogram made{number(all.min()),
                 number(all.max()),
                 static_cast<double>(all.numel()),
                 number(all.sum()),
                 number(all.dot(all)),
                 bucket_limits(),
                 {}};
  made.buckets =
      counts_between(made.limits, static_cast<const double*>(all.const_data_ptr()), all.numel());
  if (std::all_of(made.buckets.begin(), made.buckets.end(), [](double n) { return n == 0; }))
    throw BadValue(where + "is of a tensor whose elements are all beyond 1e20. Leave it out.");
  keep_used_buckets(made);
  return made;
}

inline LogRow without(LogRow row, const std::string& name, const std::string& prefix = {}) {
  std::erase_if(row, [&](const auto& item) { return item.first == name; });
  for (auto& item : row) item.first = prefix + item.first;
  return row;
}

}  // namespace detail

IKEBANA_INLINE TensorBoardLogger::TensorBoardLogger(std::filesystem::path folder)
    : events_(detail::make_shared_apart<Events>()) {
  events_->folder = std::move(folder);
  system_files().make_folder(events_->folder);
}

IKEBANA_INLINE void TensorBoardLogger::begin(const LogStart& start) {
  if (events_->file && !start.resumed) return;
  events_->file.reset();  // its lock would refuse the new one
  events_->file.emplace(events_->folder, start.resumed ? start.step : 0);
}

IKEBANA_INLINE detail::EventFile& TensorBoardLogger::file() const {
  if (!events_->file) events_->file.emplace(events_->folder, 0);
  return *events_->file;
}

IKEBANA_INLINE void TensorBoardLogger::log(const Report& report) const {
  file().add_scalars(detail::without(columns_of(report), "step"), report.step);
}

IKEBANA_INLINE void TensorBoardLogger::log(const Validation& validation) const {
  LogRow row = detail::without(columns_of(validation), "step");
  file().add_scalars(detail::without(std::move(row), "epoch"), validation.step);
}

IKEBANA_INLINE void TensorBoardLogger::log(const Epoch& epoch) const {
  if (epoch.last_step < 0)
    throw BadValue(
        "TensorBoardLogger: Epoch::last_step is not set, and TensorBoard shows an epoch "
        "at its last step. Write .last_step = trainer.steps() - 1.");
  file().add_scalars(detail::without(columns_of(epoch), "epoch", "epoch/"), epoch.last_step);
}

IKEBANA_INLINE void TensorBoardLogger::add_scalar(const std::string& tag, double value,
                                                  std::int64_t step) const {
  file().add_scalars({{tag, value}}, step);
}

IKEBANA_INLINE void TensorBoardLogger::add_histogram(const std::string& tag,
                                                     const at::Tensor& tensor,
                                                     std::int64_t step) const {
  file().add_histogram(tag, detail::histogram_of(tensor, tag), step);
}

IKEBANA_INLINE void TensorBoardLogger::add_text(const std::string& tag, const std::string& text,
                                                std::int64_t step) const {
  file().add_text(tag + "/text_summary", text, step);
}

}  // namespace ikebana
