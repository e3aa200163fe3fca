#pragma once
// modules::BNReLU2d: batch norm of images, an addition if there is one, and ReLU, as one layer.
#include <algorithm>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/parallel.hpp>
#include <ikebana/detail/running_statistics.hpp>
#include <ikebana/modules/bn_relu_loops.hpp>
#include <optional>
#include <vector>

namespace ikebana::detail {

/// Dense images (N, C, H, W), contiguous or channels last, in blocks of one size: a plane of one
/// channel, or some pixels with their channels. Sums are in FP32 within a block and in FP64 over
/// blocks, so that they do not depend on the number of threads.
class ImageBlocks {
 public:
  explicit ImageBlocks(const at::Tensor& x)
      : rows_(x.size(0)),
        channels_(x.size(1)),
        plane_(x.size(2) * x.size(3)),
        last_(!x.is_contiguous()) {}

  std::int64_t channels() const { return channels_; }
  std::int64_t values() const { return rows_ * plane_; }  ///< the number of values of a channel
  /// Returns the offset of a value of a channel.
  std::int64_t offset(std::int64_t channel, std::int64_t value) const;

  /// One number for each channel, as the loops read them: `width` copies of each if a group of
  /// neighbours has one channel.
  class PerChannel {
   public:
    PerChannel(const ImageBlocks& images, const std::vector<double>& values);
    const float* operator[](std::int64_t channel) const;

   private:
    std::size_t copies_;
    std::vector<float> all_;
  };

  /// Calls `f(offset, run, channel)` for all elements. `memory` is the memory of one of the
  /// tensors.
  template <class F>
  void each(const float* memory, const F& f) const noexcept {
    in_parallel(memory, blocks(), 1, [&](std::int64_t begin, std::int64_t end) noexcept {
      for (std::int64_t block = begin; block < end; ++block) each_run_in(block, f);
    });
  }
  /// Computes two sums for each channel: `add(offset, series, channel, first, second)` adds to the
  /// sums of a group.
  template <class Add>
  std::pair<std::vector<double>, std::vector<double>> sums(const float* memory,
                                                           const Add& add) const {
    const std::int64_t size = last_ ? channels_ : avx2::width;
    std::vector<float> parts(static_cast<std::size_t>(2 * blocks() * size));
    in_parallel(memory, blocks(), 1, [&](std::int64_t begin, std::int64_t end) noexcept {
      for (std::int64_t block = begin; block < end; ++block)
        each_in(block, [&](std::int64_t offset, avx2::Series s, std::int64_t channel) noexcept {
          float* part = parts.data() + 2 * block * size + (last_ ? channel : 0);
          add(offset, s, channel, part, part + size);
        });
    });
    const auto all = static_cast<std::size_t>(channels_);
    std::pair<std::vector<double>, std::vector<double>> result{all, all};
    for (std::int64_t block = 0; block < blocks(); ++block)
      for (std::int64_t i = 0; i < size; ++i) {
        const auto channel = static_cast<std::size_t>(last_ ? i : block % channels_);
        const float* part = parts.data() + 2 * block * size + i;
        result.first[channel] += static_cast<double>(part[0]);
        result.second[channel] += static_cast<double>(part[size]);
      }
    return result;
  }

 private:
  static constexpr std::int64_t pixels_in_block = 512, rows_in_block = 16;
  static constexpr std::int64_t elements_in_cache = 2048;  // the number of elements of each of
                                                           // several tensors

  std::int64_t blocks() const;
  template <class F>
  void each_run_in(std::int64_t block, const F& f) const noexcept {
    if (last_) {
      const std::int64_t pixel = block * pixels_in_block;
      const std::int64_t count = std::min(pixels_in_block, values() - pixel);
      return f(pixel * channels_, avx2::Run{count, channels_, true}, std::int64_t{0});
    }
    const std::int64_t channel = block % channels_, first = block / channels_ * rows_in_block;
    for (std::int64_t row = first; row < std::min(first + rows_in_block, rows_); ++row)
      f((row * channels_ + channel) * plane_, avx2::Run{1, plane_, false}, channel);
  }
  template <class F>
  void each_in(std::int64_t block, const F& f) const noexcept {
    if (last_) each_pixel_in(block, f);
    else each_plane_in(block, f);
  }
  /// Visits a block with lanes of neighbouring channels, which step from pixel to pixel.
  template <class F>
  void each_pixel_in(std::int64_t block, const F& f) const noexcept {
    const std::int64_t end = std::min((block + 1) * pixels_in_block, values());
    const std::int64_t pixels = std::max<std::int64_t>(elements_in_cache / channels_, 8);
    for (std::int64_t pixel = block * pixels_in_block; pixel < end; pixel += pixels) {
      const std::int64_t count = std::min(pixels, end - pixel);
      std::int64_t c = 0;
      for (; c + avx2::width <= channels_; c += avx2::width)
        f(pixel * channels_ + c, avx2::Series{count, channels_, true, pixels * channels_}, c);
      for (; c < channels_; ++c) f(pixel * channels_ + c, avx2::Series{count, channels_, false}, c);
    }
  }
  /// Visits a block with lanes of neighbouring pixels of one channel.
  template <class F>
  void each_plane_in(std::int64_t block, const F& f) const noexcept {
    const std::int64_t channel = block % channels_, first = block / channels_ * rows_in_block;
    const std::int64_t in_lanes = plane_ / avx2::width, rest = plane_ % avx2::width;
    for (std::int64_t row = first; row < std::min(first + rows_in_block, rows_); ++row) {
      const std::int64_t begin = (row * channels_ + channel) * plane_;
      if (in_lanes > 0) f(begin, avx2::Series{in_lanes, avx2::width, true}, channel);
      if (rest > 0) f(begin + plane_ - rest, avx2::Series{rest, 1, false}, channel);
    }
  }

  std::int64_t rows_, channels_, plane_;
  bool last_;
};

/// The statistics that backward needs from forward, besides x and y.
struct BatchStatistics {
  std::vector<double> mean, var, inverse_std;  // the statistics of each channel; var is the biased
                                               // one
};
/// Returns the parts of numbers that are lost when loops read them in FP32.
std::vector<double> rounded_away(const std::vector<double>& values);

/// Computes the statistics, exact to FP32 even if a mean is large or a value of a channel is an
/// outlier.
BatchStatistics statistics_of(const ImageBlocks& images, const float* x, double eps);

/// Returns the elements of a vector of C parameters or statistics.
std::vector<double> elements(const at::Tensor& t);
at::Tensor as_tensor(const std::vector<double>& values);
at::Tensor vector_like(const std::vector<double>& values, const at::Tensor& like);

/// The result of the loops, and the batch's mean, variance and inverse of the standard deviation,
/// in FP64.
using BNReLUResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
/// Computes relu(batch_norm(x) + residual) by the loops.
BNReLUResult bn_relu(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const std::optional<at::Tensor>& residual, double eps);
/// The gradients of x, weight, bias and residual.
using BNReLUGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
/// Computes the gradients by the loops: of the residual if `adds`, of x if `to_x`.
BNReLUGradients bn_relu_backward(const at::Tensor& x, const at::Tensor& result,
                                 const at::Tensor& gradient, const at::Tensor& weight,
                                 const at::Tensor& batch_mean, const at::Tensor& batch_inverse_std,
                                 bool adds, bool to_x);
/// The statistics by which the running ones move.
struct BNReLUStatistics {
  at::Tensor mean, var;
};

/// Computes relu(batch_norm(x) + residual) in training mode, by the loops. Keeps x and its result,
/// which the next layer keeps as well, and two numbers for each channel.
struct FusedBNReLU : torch::autograd::Function<FusedBNReLU> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  /// x, and the residual if there is one, are FP32 images on a CPU with one shape and memory
  /// format.
  static at::Tensor forward(Context* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const std::optional<at::Tensor>& residual,
                            BNReLUStatistics& statistics, double eps);

  static Tensors backward(Context* context, const Tensors& gradients);

 private:
  /// Computes a backward with create_graph, by operators that have a derivative.
  static Tensors backward_by_operators(Context* context, const at::Tensor& gradient);
};

/// Returns whether the loops compute the layer for these images.
bool is_fused(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
              const at::Tensor& bias);

}  // namespace ikebana::detail

namespace ikebana::modules {

/// torch::nn::BatchNorm2d, an addition if a second tensor is given, and ReLU: relu(batch_norm(x) +
/// residual) as one layer, with the options, parameters and buffers of BatchNorm2d, so that either
/// reads the weights of the other. Takes and returns (N, C, H, W). In training mode FP32 images on
/// a CPU with AVX2 take four passes over memory, two forward and two backward, instead of the
/// operators' nine (eleven with an addition), and one result is allocated instead of two or three;
/// statistics are exact to FP32 even if a mean is large. All other images and evaluation are
/// computed by LibTorch's operators, the last ones in place. Has second derivatives. Throws
/// BadBatch for a residual of another shape. Sources: torch.ao.nn.intrinsic.BNReLU2d; Ioffe and
/// Szegedy, arXiv:1502.03167.
struct BNReLU2dImpl : torch::nn::BatchNormImplBase<2, BNReLU2dImpl>, detail::HasRunningStatistics {
  /// The base class, whose constructors it has.
  using Base = torch::nn::BatchNormImplBase<2, BNReLU2dImpl>;
  using Base::Base;

  /// Takes x (N, C, H, W), and optionally a residual of the same shape.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual = {});
  /// Returns the running statistics, which a recompute of a checkpoint leaves as they are.
  IKEBANA_INLINE detail::RunningStatistics running_statistics() override;
  /// Writes the layer as printing a model shows it.
  IKEBANA_INLINE void pretty_print(std::ostream& out) const override;

 protected:
  IKEBANA_INLINE void _check_input_dim(const at::Tensor& x) override;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(at::Tensor())})

 private:
  at::Tensor fused(const at::Tensor& x, const at::Tensor& residual);
  void track(const detail::BNReLUStatistics& statistics, std::int64_t values);
};
TORCH_MODULE(BNReLU2d);

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/bn_relu.ipp>
#endif
