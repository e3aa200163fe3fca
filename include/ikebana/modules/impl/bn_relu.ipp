#pragma once
#include <array>
#include <cmath>
#include <ikebana/bridge/custom_operator.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/recording.hpp>
#include <ikebana/error.hpp>
#include <ikebana/modules/bn_relu.hpp>
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

/// Returns the median of five values of each channel, from places all over it. The median is near
/// the mean even if one of them is an outlier. Values that are not finite are left out.
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

/// Computes the mean and variance of one channel in FP64, value by value.
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

/// Computes means and variances from FP32 sums of the differences from `origin`, which loses no
/// digits while `origin` is at most some standard deviations off. Returns false if it was further
/// off for a channel: the mean is then a better origin.
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

IKEBANA_INLINE const float* values_of(const at::Tensor& t) {
  return without_values() ? nullptr : static_cast<const float*>(t.const_data_ptr());
}

IKEBANA_INLINE BNReLUResult bn_relu(const at::Tensor& x, const at::Tensor& weight,
                                    const at::Tensor& bias,
                                    const std::optional<at::Tensor>& residual, double eps) {
  const ImageBlocks images(x);
  const auto* from = values_of(x);
  const BatchStatistics statistics = statistics_of(images, from, eps);
  std::vector<double> scale = elements(weight);
  for (std::size_t c = 0; c < scale.size(); ++c) scale[c] *= statistics.inverse_std[c];
  const ImageBlocks::PerChannel m(images, statistics.mean), a(images, scale);
  std::vector<double> shift = elements(bias);
  const std::vector<double> rest = rounded_away(statistics.mean);
  for (std::size_t c = 0; c < shift.size(); ++c) shift[c] -= rest[c] * scale[c];
  const ImageBlocks::PerChannel b(images, shift);
  const at::Tensor y = at::empty_like(x);
  const float* add = residual ? values_of(*residual) : nullptr;
  float* to = data_of<float>(y);
  images.each(from, [&](auto offset, avx2::Run run, auto channel) noexcept {
    avx2::forward(from + offset, add == nullptr ? nullptr : add + offset, to + offset, run,
                  m[channel], a[channel], b[channel]);
  });
  return {y, as_tensor(statistics.mean), as_tensor(statistics.var),
          as_tensor(statistics.inverse_std)};
}

IKEBANA_INLINE BNReLUGradients bn_relu_backward(const at::Tensor& x, const at::Tensor& result,
                                                const at::Tensor& gradient,
                                                const at::Tensor& weight,
                                                const at::Tensor& batch_mean,
                                                const at::Tensor& batch_inverse_std, bool adds,
                                                bool to_x) {
  const at::Tensor dx = at::empty_like(x), passed = adds ? at::empty_like(x) : dx;
  const ImageBlocks images(x);
  const float *from = values_of(x), *y = values_of(result), *g = values_of(gradient);
  float *behind = data_of<float>(passed), *to = data_of<float>(dx);
  const std::vector<double> mean = elements(batch_mean), inverse_std = elements(batch_inverse_std),
                            rest = rounded_away(mean);
  const ImageBlocks::PerChannel m(images, mean), d(images, inverse_std);
  auto [sums, products] = images.sums(
      from, [&](auto offset, auto s, auto channel, float* first, float* second) noexcept {
        avx2::add_gradients(from + offset, y + offset, g + offset, behind + offset, s, m[channel],
                            d[channel], first, second);
      });
  for (std::size_t i = 0; i < rest.size(); ++i) products[i] -= rest[i] * inverse_std[i] * sums[i];
  if (to_x) {
    std::vector<double> a = elements(weight), b = a, c = a;
    const auto n = static_cast<double>(images.values());
    for (std::size_t i = 0; i < a.size(); ++i) {
      a[i] *= inverse_std[i];
      b[i] = -a[i] * inverse_std[i] * products[i] / n;
      c[i] = -a[i] * sums[i] / n - rest[i] * b[i];
    }
    const ImageBlocks::PerChannel as(images, a), bs(images, b), cs(images, c);
    images.each(from, [&](auto offset, avx2::Run run, auto channel) noexcept {
      avx2::backward(from + offset, behind + offset, to + offset, run, m[channel], as[channel],
                     bs[channel], cs[channel]);
    });
  }
  return {dx, vector_like(products, weight), vector_like(sums, weight),
          adds ? passed : at::empty({0}, x.options())};
}

IKEBANA_INLINE at::Tensor FusedBNReLU::forward(Context* context, const at::Tensor& x,
                                               const at::Tensor& weight, const at::Tensor& bias,
                                               const std::optional<at::Tensor>& residual,
                                               BNReLUStatistics& statistics, double eps) {
  const auto [y, mean, var, inverse_std] = recorded_call<&bn_relu>(
      "ikebana::bn_relu(Tensor x, Tensor weight, Tensor bias, Tensor? residual, float eps) -> "
      "(Tensor, Tensor, Tensor, Tensor)",
      x, weight, bias, residual, eps);
  statistics = {mean, var};
  context->save_for_backward({x, y, weight, mean, inverse_std});
  context->saved_data["eps"] = eps;
  context->saved_data["adds"] = residual.has_value();
  return y;
}

IKEBANA_INLINE FusedBNReLU::Tensors FusedBNReLU::backward(Context* context,
                                                          const Tensors& gradients) {
  if (at::GradMode::is_enabled()) return backward_by_operators(context, gradients[0]);
  const Tensors saved = context->get_saved_variables();
  const at::Tensor& x = saved[0];
  const bool adds = context->saved_data["adds"].toBool() && context->needs_input_grad(3);
  const bool to_x = context->needs_input_grad(0);
  const at::Tensor gradient = gradients[0].contiguous(x.suggest_memory_format());
  const auto [dx, dweight, dbias, passed] = recorded_call<&bn_relu_backward>(
      "ikebana::bn_relu_backward(Tensor x, Tensor result, Tensor gradient, Tensor weight, Tensor "
      "mean, Tensor inverse_std, bool adds, bool to_x) -> (Tensor, Tensor, Tensor, Tensor)",
      x, saved[1], gradient, saved[2], saved[3], saved[4], adds, to_x);
  const at::Tensor none;
  return {to_x ? dx : none, dweight, dbias, adds ? passed : none, none, none};
}

IKEBANA_INLINE FusedBNReLU::Tensors FusedBNReLU::backward_by_operators(Context* context,
                                                                       const at::Tensor& gradient) {
  const Tensors saved = context->get_saved_variables();
  const at::Tensor passed = at::threshold_backward(gradient, saved[1].detach(), 0);
  const auto [dx, dweight, dbias] = at::native_batch_norm_backward(
      passed, saved[0], saved[2], {}, {}, saved[3].to(at::kFloat), saved[4].to(at::kFloat),
      /*train=*/true, context->saved_data["eps"].toDouble(), {true, true, true});
  const bool adds = context->saved_data["adds"].toBool();
  return {dx, dweight, dbias, adds ? passed : at::Tensor(), {}, {}};
}

IKEBANA_INLINE bool is_fused(const at::Tensor& x, const at::Tensor& residual,
                             const at::Tensor& weight, const at::Tensor& bias) {
  const auto fits = [](const at::Tensor& t) {
    return t.is_cpu() && t.scalar_type() == at::kFloat && t.layout() == at::kStrided;
  };
  const auto format = x.suggest_memory_format();
  return avx2::is_supported() && x.dim() == 4 && x.numel() > 0 && fits(x) &&
         x.is_contiguous(format) && weight.defined() && bias.defined() && fits(weight) &&
         fits(bias) && (!residual.defined() || (fits(residual) && residual.is_contiguous(format)));
}

}  // namespace ikebana::detail

namespace ikebana::modules {

IKEBANA_INLINE at::Tensor BNReLU2dImpl::forward(const at::Tensor& x, const at::Tensor& residual) {
  _check_input_dim(x);
  if (residual.defined() && residual.sizes() != x.sizes())
    throw BadBatch(c10::str("BNReLU2d: the input has the shape ", x.sizes(), ", the residual ",
                            residual.sizes(), ". Give both one shape; nothing is broadcast."));
  if (this->is_training() && x.size(0) * x.size(2) * x.size(3) > 1 &&
      detail::is_fused(x, residual, weight, bias))
    return fused(x, residual);
  at::Tensor y = Base::forward(x);
  if (residual.defined())
    y = y.scalar_type() == residual.scalar_type() ? y.add_(residual) : y + residual;
  return y.relu_();
}

IKEBANA_INLINE detail::RunningStatistics BNReLU2dImpl::running_statistics() {
  return detail::RunningStatistics::of(*this);
}

IKEBANA_INLINE void BNReLU2dImpl::pretty_print(std::ostream& out) const {
  out << "ikebana::modules::BNReLU2d(" << options.num_features() << ')';
}

IKEBANA_INLINE void BNReLU2dImpl::_check_input_dim(const at::Tensor& x) {
  if (x.dim() != 4 || x.size(1) != options.num_features())
    throw BadBatch(c10::str("BNReLU2d: the input has the shape ", x.sizes(), "; it must be (N, ",
                            options.num_features(), ", H, W)."));
}

IKEBANA_INLINE at::Tensor BNReLU2dImpl::fused(const at::Tensor& x, const at::Tensor& residual) {
  detail::BNReLUStatistics statistics;
  const auto add = residual.defined() ? std::optional(residual) : std::nullopt;
  at::Tensor y = detail::FusedBNReLU::apply(x, weight, bias, add, statistics, options.eps());
  if (options.track_running_stats()) track(statistics, x.numel() / x.size(1));
  return y;
}

IKEBANA_INLINE void BNReLU2dImpl::track(const detail::BNReLUStatistics& statistics,
                                        std::int64_t values) {
  const at::NoGradGuard no_grad;
  num_batches_tracked.add_(1);
  const double factor = options.momentum() ? *options.momentum()
                                           : 1 / num_batches_tracked.to(at::kDouble).item<double>();
  const double unbiased = static_cast<double>(values) / static_cast<double>(values - 1);
  auto move = [&](at::Tensor& running, const at::Tensor& to, double by) {
    running.mul_(1 - factor).add_(to.to(running.options().requires_grad(false)), factor * by);
  };
  move(running_mean, statistics.mean, 1), move(running_var, statistics.var, unbiased);
}

}  // namespace ikebana::modules
