#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/evaluate/metric.hpp>
#include <ikebana/metrics/metric_sums.hpp>
#include <ikebana/state/archive.hpp>
#include <sstream>

namespace ikebana::detail {

/// Returns the dtypes and shapes of tensors as a text, which `zeros_of` reads.
inline std::string form_of(const std::vector<at::Tensor>& tensors) {
  std::ostringstream text;
  for (const at::Tensor& t : tensors) {
    text << static_cast<int>(t.scalar_type()) << ' ' << t.dim() << ' ';
    for (std::int64_t size : t.sizes()) text << size << ' ';
  }
  return text.str();
}

inline std::vector<at::Tensor> zeros_of(const std::string& form) {
  std::istringstream text(form);
  std::vector<at::Tensor> tensors;
  std::size_t dim = 0;
  for (int dtype = 0; text >> dtype >> dim;) {
    std::vector<std::int64_t> sizes(dim);
    for (std::int64_t& size : sizes) text >> size;
    tensors.push_back(at::zeros(sizes, static_cast<at::ScalarType>(dtype)));
  }
  return tensors;
}

IKEBANA_INLINE std::vector<at::Tensor> sum_over(RankGroup& ranks, const std::string& metric,
                                                std::vector<at::Tensor> own) {
  for (at::Tensor& t : own) t = t.to(at::kCPU);
  std::string form;
  for (const std::string& one : exchange_in(ranks, "metric `" + metric + "`", form_of(own))) {
    if (form.empty()) form = one;
    if (!one.empty() && one != form)
      throw BadModel("metric `" + metric +
                     "`: ranks have outputs with other numbers of classes, or other dtypes. "
                     "Evaluate the same model on all ranks.");
  }
  if (form.empty()) return own;
  if (own.empty()) own = zeros_of(form);
  ranks.sum(own);
  return own;
}

IKEBANA_INLINE at::Tensor MetricSums::on_host(std::size_t i) const {
  return all_[i].to(at::kCPU).to(at::kDouble);
}

IKEBANA_INLINE void MetricSums::add(const std::string& metric, std::vector<at::Tensor> batch) {
  if (all_.empty()) return set(std::move(batch));
  for (std::size_t i = 0; i < batch.size(); ++i)
    if (batch[i].sizes() != all_[i].sizes())
      throw BadBatch("metric `" + metric + "`: the outputs of a batch have " +
                     std::to_string(batch[i].size(-1)) + " columns, and those before had " +
                     std::to_string(all_[i].size(-1)) +
                     ". Give all batches of an evaluation the same classes, labels or targets.");
  for (std::size_t i = 0; i < batch.size(); ++i)
    batch[i] = batch[i] + all_[i].to(batch[i].device());  // a loaded sum is on the host
  set(std::move(batch));
}

IKEBANA_INLINE void MetricSums::state(Archive& archive, std::initializer_list<Listed> listed) {
  const bool is_there = archive.saving() ? !empty() : archive.has(listed.begin()->name);
  if (!is_there) return archive.loading() ? all_.clear() : void();
  std::vector<at::Tensor> all = all_;
  all.resize(listed.size());
  auto sum = all.begin();
  for (const Listed& one : listed) {
    const std::vector<std::int64_t> sizes(static_cast<std::size_t>(one.dim), 0);
    if (archive.checking() && !archive.has(one.name)) archive.add_missing(one.name);
    archive_sum(archive, one.name, *sum++, at::empty(sizes, one.dtype));
  }
  if (archive.loading()) all_ = std::move(all);
}

}  // namespace ikebana::detail
