#pragma once
// modules::BNReLU2d: batch norm of images, an addition if there is one, and ReLU, as one layer.
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/running_statistics.hpp>
#include <ikebana/modules/fused_bn_relu.hpp>
#include <optional>

namespace ikebana::detail {

/// relu(batch_norm(x) + residual) in training mode, by the loops. Keeps x and its result, which
/// the next layer keeps as well, and two numbers for each channel.
struct FusedBNReLU : torch::autograd::Function<FusedBNReLU> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  /// x, and the residual if there is one, are FP32 images on a CPU of one shape and memory format.
  static at::Tensor forward(Context* context, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const std::optional<at::Tensor>& residual,
                            BatchStatistics& statistics, double eps);

  static Tensors backward(Context* context, const Tensors& gradients);

 private:
  static const float* values(const at::Tensor& t);
  /// For a backward with create_graph: by operators that have a derivative.
  static Tensors backward_by_operators(Context* context, const at::Tensor& gradient);
};

/// Whether the loops compute the layer of these images.
bool is_fused(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
              const at::Tensor& bias);

}  // namespace ikebana::detail

namespace ikebana::modules {

/// torch::nn::BatchNorm2d, an addition if a second tensor is given, and ReLU:
/// relu(batch_norm(x) + residual) as one layer, with the options, parameters and buffers of
/// BatchNorm2d, so that either reads the weights of the other. Takes and returns (N, C, H, W). In
/// training mode FP32 images on a CPU with AVX2 take four passes over memory forward and backward
/// where the operators take nine (eleven with an addition), and one result is allocated
/// instead of two or three; statistics are exact to FP32 also where a mean is large. All other
/// images and evaluation are computed by LibTorch's operators, the last ones in place. Has second
/// derivatives. Throws BadBatch for a residual of another shape. Sources:
/// torch.ao.nn.intrinsic.BNReLU2d; Ioffe and Szegedy, arXiv:1502.03167.
struct BNReLU2dImpl : torch::nn::BatchNormImplBase<2, BNReLU2dImpl>, detail::HasRunningStatistics {
  /// What it derives from, with its constructors.
  using Base = torch::nn::BatchNormImplBase<2, BNReLU2dImpl>;
  using Base::Base;

  /// x (N, C, H, W), and a residual of the same shape, or none.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& residual = {});
  /// The running statistics, which a recompute of a checkpoint leaves as they are.
  IKEBANA_INLINE detail::RunningStatistics running_statistics() override;
  /// As printing the model shows it.
  IKEBANA_INLINE void pretty_print(std::ostream& out) const override;

 protected:
  IKEBANA_INLINE void _check_input_dim(const at::Tensor& x) override;

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(at::Tensor())})

 private:
  at::Tensor fused(const at::Tensor& x, const at::Tensor& residual);
  void track(const detail::BatchStatistics& statistics, std::int64_t values);
};
TORCH_MODULE(BNReLU2d);

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/bn_relu.ipp>
#endif
