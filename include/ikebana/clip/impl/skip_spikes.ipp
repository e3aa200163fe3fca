#pragma once
#include <ikebana/clip/skip_spikes.hpp>
#include <ikebana/detail/form.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void SpikeWindow::begin(std::int64_t window, c10::Device device) {
  const auto options = at::dtype(at::kDouble).device(device);
  values_ = at::zeros({window, 2}, options);
  skips_ = at::zeros({kept_skips, 4}, options);
  places_ = at::zeros({kept_skips, 3}, options.dtype(at::kLong));
  for (at::Tensor* count : counts()) *count = at::zeros({}, options.dtype(at::kLong));
}

IKEBANA_INLINE const at::Tensor& SpikeWindow::judge(const at::Tensor& now, double zscore,
                                                    const at::Tensor& rejected) {
  const std::array<std::int64_t, 1> rows = {0};
  const auto [deviation, mean] = at::std_mean(values_, rows, /*unbiased=*/true);
  now_ = now, finite_ = now.isfinite().all();
  scores_ = (now - mean) / at::maximum(deviation, mean.abs() * 1e-3).clamp_min(1e-300);
  spikes_ = recorded_.ge(values_.size(0)).logical_and(finite_);
  spikes_ = spikes_.logical_and(scores_.gt(zscore).any());
  if (rejected.defined()) spikes_ = spikes_.logical_and(rejected == 0);
  return spikes_;
}

IKEBANA_INLINE at::Tensor SpikeWindow::too_many(std::int64_t max_skips) const {
  return spikes_.logical_and(in_row_.ge(max_skips)).to(at::kFloat);
}

IKEBANA_INLINE void SpikeWindow::prepare(const at::Tensor& rejected,
                                         const std::optional<BatchPosition>& position) {
  const at::Tensor made = rejected.defined() ? finite_.logical_and(rejected == 0) : finite_.clone();
  next_ = {at::where(made, with_row(values_, recorded_, now_), values_),
           at::where(spikes_, with_row(skips_, skipped_, at::cat({now_, scores_})), skips_),
           at::where(spikes_, with_row(places_, skipped_, place(position)), places_),
           recorded_ + made,
           at::where(spikes_, in_row_ + 1, in_row_ * made.logical_not()),
           skipped_ + spikes_,
           steps_ + 1};
}

IKEBANA_INLINE void SpikeWindow::commit() noexcept {
  if (next_.empty()) return;
  const at::NoGradGuard no_grad;
  std::size_t i = 0;
  for (at::Tensor* t : {&values_, &skips_, &places_}) t->copy_(next_[i++]);
  for (at::Tensor* t : counts()) t->copy_(next_[i++]);
  forget();
}

IKEBANA_INLINE std::pair<at::Tensor, at::Tensor> SpikeWindow::rows() const {
  const std::int64_t all = skipped(), n = std::min(all, kept_skips);
  const at::Tensor order = (at::arange(n) + (all - n)).remainder(kept_skips);
  return {skips_.cpu().index_select(0, order), places_.cpu().index_select(0, order)};
}

IKEBANA_INLINE void SpikeWindow::state(Archive& archive) {
  archive.tensor("losses_and_norms", values_, &finite_range);
  archive.tensor("skips", skips_, &ordered_range);
  archive.tensor("places_of_skips", places_, &place_range);
  archive.tensor("recorded", recorded_, &count_range);
  archive.tensor("skips_in_a_row", in_row_, &count_range);
  archive.tensor("skipped", skipped_, &count_range);
  archive.tensor("steps", steps_, &count_range);
}

IKEBANA_INLINE at::Tensor SpikeWindow::with_row(const at::Tensor& table, const at::Tensor& number,
                                                const at::Tensor& row) {
  return table.index_copy(0, number.remainder(table.size(0)).view({1}), row.unsqueeze(0));
}

IKEBANA_INLINE at::Tensor SpikeWindow::place(const std::optional<BatchPosition>& position) const {
  auto known = [&](std::int64_t n) {
    return at::full({1}, n, at::dtype(at::kLong).device(now_.device()));
  };
  const BatchPosition at = position.value_or(BatchPosition{-1, -1});
  return at::cat({steps_.view({1}), known(at.epoch), known(at.batch)});
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE void Mechanism<SkipSpikes>::begin(const Masters& masters) {
  TotalNorm::begin(masters);
  window_.begin(values.window, masters.values.at(0).device());
}

IKEBANA_INLINE std::vector<Spike> Mechanism<SkipSpikes>::skips() const {
  std::vector<Spike> all;
  const auto [numbers, places] = window_.rows();
  const auto* x = static_cast<const double*>(numbers.const_data_ptr());
  const auto* at = static_cast<const std::int64_t*>(places.const_data_ptr());
  for (std::int64_t i = 0; i < numbers.size(0); ++i, x += 4, at += 3) {
    all.push_back({at[0], x[0], x[1], x[2], x[3], {}});
    if (at[1] >= 0) all.back().position = BatchPosition{at[1], at[2]};
  }
  return all;
}

IKEBANA_INLINE std::string Mechanism<SkipSpikes>::describe() const {
  return "window=" + std::to_string(values.window) + ", zscore=" + c10::str(values.zscore) +
         ", max_skips=" + std::to_string(values.max_skips) +
         (values.error_if_nonfinite ? "" : ", skips a norm that is not finite");
}

IKEBANA_INLINE void Mechanism<SkipSpikes>::check() const {
  if (values.window < 2 || !(values.zscore > 0) || values.max_skips < 0)
    throw BadValue("SkipSpikes: window is " + std::to_string(values.window) + ", zscore " +
                   c10::str(values.zscore) + ", max_skips " + std::to_string(values.max_skips) +
                   "; window must be 2 or more, zscore positive, and max_skips not negative.");
  detail::check_unchanged(values.window == window_size_, "SkipSpikes: window");
}

}  // namespace ikebana
