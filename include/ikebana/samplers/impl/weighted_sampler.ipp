#pragma once
#include <algorithm>
#include <cmath>
#include <ikebana/detail/content_hash.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/error.hpp>
#include <ikebana/samplers/weighted_sampler.hpp>
#include <limits>

namespace ikebana {

IKEBANA_INLINE WeightedSampler::WeightedSampler(const at::Tensor& weights, std::int64_t draws)
    : draws_(draws) {
  if (!weights.defined() || weights.dim() != 1 || weights.numel() == 0 ||
      weights.numel() > std::numeric_limits<std::uint32_t>::max() || draws < 0)
    throw BadValue("WeightedSampler: the weights are " +
                   (weights.defined() ? c10::str(weights.sizes()) : std::string("undefined")) +
                   ", and draws " + std::to_string(draws) +
                   ". Give one weight per sample, at most 2^32, and draws of 0 or more.");
  const at::Tensor all = weights.detach().to(at::kCPU, at::kDouble).contiguous();
  const auto* weight = static_cast<const double*>(all.const_data_ptr());
  double sum = 0;
  for (std::int64_t i = 0; i < all.numel(); ++i) {
    if (!(weight[i] >= 0 && std::isfinite(weight[i])))
      throw BadValue("WeightedSampler: the weight of sample " + std::to_string(i) + " is " +
                     std::to_string(weight[i]) + "; it must be finite and not negative.");
    sum += weight[i];
  }
  if (!(sum > 0 && std::isfinite(sum)))
    throw BadValue("WeightedSampler: the weights add up to " + std::to_string(sum) +
                   "; the sum must be finite and above 0.");
  cells_ =
      std::make_shared<const std::vector<Cell>>(alias_table({weight, weight + all.numel()}, sum));
  hash_ = detail::key(detail::content_hash(all), draws);
}

IKEBANA_INLINE auto WeightedSampler::alias_table(const std::vector<double>& weights, double sum)
    -> std::vector<Cell> {
  const std::size_t n = weights.size();
  std::vector<Cell> cells(n);
  std::vector<double> share(n);  // the part of its cell, or the cells, that a sample has
  std::vector<std::uint32_t> poor, rich;
  for (std::size_t i = 0; i < n; ++i) {
    share[i] = weights[i] / sum * static_cast<double>(n);
    (share[i] < 1 ? poor : rich).push_back(static_cast<std::uint32_t>(i));
  }
  while (!poor.empty() && !rich.empty()) {
    const std::uint32_t less = poor.back(), more = rich.back();
    poor.pop_back();
    cells[less] = {static_cast<float>(share[less]), more};
    share[more] -= 1 - share[less];
    if (share[more] < 1) rich.pop_back(), poor.push_back(more);
  }
  // Rounding leaves samples whose share is about their cell. One without weight has no share, and
  // the heaviest sample takes its cell.
  const auto heaviest = std::max_element(weights.begin(), weights.end()) - weights.begin();
  for (const auto& left : {poor, rich})
    for (const std::uint32_t i : left)
      cells[i] = weights[i] > 0 ? Cell{1, i} : Cell{0, static_cast<std::uint32_t>(heaviest)};
  return cells;
}

IKEBANA_INLINE std::int64_t WeightedSampler::size(std::int64_t samples) const {
  if (std::ssize(*cells_) != samples)
    throw BadValue("WeightedSampler: it has " + std::to_string(cells_->size()) +
                   " weights, and the dataset " + std::to_string(samples) +
                   " samples. Give one weight per sample.");
  return draws_ == 0 ? samples : draws_;
}

IKEBANA_INLINE std::int64_t WeightedSampler::index(std::int64_t position,
                                                   const SampledEpoch& epoch) const {
  const std::uint64_t key = detail::key(epoch.seed, epoch.epoch, position, std::uint64_t{0x5a});
  const std::uint64_t first = detail::mix(key + detail::golden);
  const std::uint64_t second = detail::mix(key + 2 * detail::golden);
  // The high half of a product is uniform in [0, n), but for a bias below n / 2^32.
  const std::uint64_t n = cells_->size();
  const auto cell = static_cast<std::uint32_t>(((first >> 32) * n) >> 32);
  const Cell& found = (*cells_)[cell];
  return static_cast<double>(second >> 11) * 0x1p-53 < static_cast<double>(found.keeps)
             ? cell
             : found.other;
}

IKEBANA_INLINE at::Tensor balanced_weights(const at::Tensor& labels) {
  if (!labels.defined() || labels.dim() != 1 || labels.numel() == 0 ||
      !at::isIntegralType(labels.scalar_type(), /*includeBool=*/false) ||
      labels.min().item<std::int64_t>() < 0)
    throw BadValue(
        "balanced_weights: give the labels of all samples, which are integers from 0, as a tensor "
        "of one dimension.");
  const at::Tensor all = labels.to(at::kCPU, at::kLong);
  return all.bincount().to(at::kDouble).reciprocal().index_select(0, all);
}

}  // namespace ikebana
