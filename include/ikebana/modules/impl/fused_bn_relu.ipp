#pragma once
#include <array>
#include <cmath>
#include <ikebana/detail/form.hpp>
#include <ikebana/modules/fused_bn_relu.hpp>
#include <tuple>

namespace ikebana::detail {

IKEBANA_INLINE std::int64_t ImageBlocks::offset(std::int64_t channel, std::int64_t value) const {
  return last_ ? value * channels_ + channel
               : (value / plane_ * channels_ + channel) * plane_ + value % plane_;
}

IKEBANA_INLINE ImageBlocks::PerChannel::PerChannel(const ImageBlocks& images,
                                                   const std::vector<double>& values)
    : copies_(images.last_ ? 1 : avx2::width) {
  for (double value : values) all_.insert(all_.end(), copies_, static_cast<float>(value));
}

IKEBANA_INLINE const float* ImageBlocks::PerChannel::operator[](std::int64_t channel) const {
  return all_.data() + channel * static_cast<std::int64_t>(copies_);
}

IKEBANA_INLINE std::int64_t ImageBlocks::blocks() const {
  return last_ ? (values() + pixels_in_block - 1) / pixels_in_block
               : (rows_ + rows_in_block - 1) / rows_in_block * channels_;
}

IKEBANA_INLINE std::vector<double> rounded_away(const std::vector<double>& values) {
  std::vector<double> rest = values;
  for (double& value : rest) value -= static_cast<double>(static_cast<float>(value));
  return rest;
}

/// The median of five values of each channel, from all over it: near the mean, also where one of
/// them is an outlier. Values that are not finite are left out.
inline std::vector<double> middle_values(const ImageBlocks& images, const float* x) {
  constexpr std::size_t samples = 5;
  std::vector<double> all(static_cast<std::size_t>(images.channels()));
  if (without_values()) return all;
  std::array<std::int64_t, samples> places;
  for (std::size_t i = 0; i < samples; ++i)
    places[i] =
        static_cast<std::int64_t>(std::fmod(static_cast<double>(i) * 0.6180339887498949, 1) *
                                  static_cast<double>(images.values()));
  for (std::size_t c = 0; c < all.size(); ++c) {
    std::array<float, samples> found;
    std::size_t count = 0;
    for (const std::int64_t place : places) {
      const float v = x[images.offset(static_cast<std::int64_t>(c), place)];
      if (std::isfinite(v)) found[count++] = v;
    }
    const auto end = found.begin() + static_cast<std::ptrdiff_t>(count);
    const auto middle = found.begin() + static_cast<std::ptrdiff_t>(count / 2);
    std::nth_element(found.begin(), middle, end);
    if (count > 0) all[c] = static_cast<double>(*middle);
  }
  return all;
}

/// Mean and variance of one channel in FP64, value by value.
inline std::pair<double, double> exact_moments(const ImageBlocks& images, const float* x,
                                               std::size_t channel) {
  const auto at = [&](std::int64_t value) {
    return static_cast<double>(x[images.offset(static_cast<std::int64_t>(channel), value)]);
  };
  const auto n = static_cast<double>(images.values());
  double mean = 0, var = 0;
  for (std::int64_t i = 0; i < images.values(); ++i) mean += at(i) / n;
  for (std::int64_t i = 0; i < images.values(); ++i) var += (at(i) - mean) * (at(i) - mean) / n;
  return {mean, var};
}

/// Mean and variance, from FP32 sums of the differences from `origin`, which costs no digits while
/// it is at most some standard deviations off. Returns false where it was more for a channel: the
/// mean is then a better origin.
inline bool moments_from(const ImageBlocks& images, const float* x,
                         const std::vector<double>& origins, BatchStatistics& all) {
  const ImageBlocks::PerChannel origin(images, origins);
  const auto [sums, squares] =
      images.sums(x, [&](auto offset, auto s, auto channel, float* first, float* second) noexcept {
        avx2::add_moments(x + offset, s, origin[channel], first, second);
      });
  const auto n = static_cast<double>(images.values());
  bool is_near = true;
  for (std::size_t c = 0; c < sums.size(); ++c) {
    const double shift = sums[c] / n, var = squares[c] / n - shift * shift;
    all.mean[c] = static_cast<double>(static_cast<float>(origins[c])) + shift;
    all.var[c] = var < 0 ? 0 : var;
    is_near = is_near && !(shift * shift > 16 * all.var[c]);
  }
  return is_near;
}

IKEBANA_INLINE BatchStatistics statistics_of(const ImageBlocks& images, const float* x,
                                             double eps) {
  const auto channels = static_cast<std::size_t>(images.channels());
  BatchStatistics all{std::vector<double>(channels), std::vector<double>(channels), {}};
  if (!moments_from(images, x, middle_values(images, x), all)) {
    const std::vector<double> means = all.mean;
    moments_from(images, x, means, all);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    // The squares are infinite or 0 in FP32, or not numbers.
    if (!without_values() && !(all.var[c] + eps > 1e-30 && std::isfinite(all.var[c])))
      std::tie(all.mean[c], all.var[c]) = exact_moments(images, x, c);
    all.inverse_std.push_back(1 / std::sqrt(all.var[c] + eps));
  }
  return all;
}

IKEBANA_INLINE std::vector<double> elements(const at::Tensor& t) {
  if (without_values()) return std::vector<double>(static_cast<std::size_t>(t.numel()));
  const at::Tensor flat = t.to(at::kDouble).contiguous();
  const auto* begin = static_cast<const double*>(flat.const_data_ptr());
  return {begin, begin + flat.numel()};
}

IKEBANA_INLINE at::Tensor as_tensor(const std::vector<double>& values) {
  at::Tensor t = at::empty({std::ssize(values)}, at::kDouble);
  if (double* to = data_of<double>(t)) std::copy(values.begin(), values.end(), to);
  return t;
}

IKEBANA_INLINE at::Tensor vector_like(const std::vector<double>& values, const at::Tensor& like) {
  return as_tensor(values).to(like.options().requires_grad(false));
}

}  // namespace ikebana::detail
