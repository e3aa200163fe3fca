#pragma once
// modules::SyncBatchNorm: torch.nn.SyncBatchNorm, batch norm with statistics over the rows of all
// ranks.
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/running_statistics.hpp>
#include <ikebana/ranks/rank_calls.hpp>
#include <optional>
#include <string>

namespace ikebana::detail {

/// The statistics of each channel over the rows of all ranks.
struct JoinedStatistics {
  at::Tensor mean, var;  ///< (C), FP32 or FP64; var is the biased variance
  at::Tensor count;      ///< number of values in a channel; FP64, without dimensions

  static at::ScalarType dtype(const at::Tensor& x);
  /// Returns this rank's part of the sums over ranks: the count, then the sum and the sum of
  /// squares of each channel. They are in FP64, so that the variance, a difference of large
  /// numbers, is right to FP32 even if the mean is 1,000 standard deviations.
  static at::Tensor local_sums(const at::Tensor& x);
  static JoinedStatistics of_sums(const at::Tensor& sums, at::ScalarType type);
};

/// Normalises by joined statistics. Its gradient is that of the joined batch: one more sum over the
/// ranks. Keeps its input, and two elements for each channel.
struct NormalizeOverRanks : torch::autograd::Function<NormalizeOverRanks> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  /// Takes x (N, C, *), and optionally weight and bias (C).
  static at::Tensor forward(Context* context, const at::Tensor& x,
                            const std::optional<at::Tensor>& weight,
                            const std::optional<at::Tensor>& bias, const JoinedStatistics& joined,
                            double eps, const RankScope& ranks, const std::string& name);

  static Tensors backward(Context* context, const Tensors& gradients);

 private:
  struct Kept {
    at::Tensor x, weight, mean, var;
    double eps;
  };
  [[noreturn]] static void refuse_second_derivative(const std::string& name);
  /// Converts to the dtype of the statistics, because LibTorch's kernel on a CPU adds up BF16 with
  /// three digits.
  static at::Tensor in(const at::Tensor& mean, const at::Tensor& t);
  /// Computes (x - mean) / sqrt(var + eps) * weight + bias, in one pass.
  static at::Tensor scaled(const Kept& k, const at::Tensor& weight, const at::Tensor& bias);
  /// Returns two sums over this rank's rows: of the gradient's products with the normalised input,
  /// the gradient of the weight, and of the gradient, the gradient of the bias.
  static Tensors local_sums(const at::Tensor& g, const Kept& k);
  /// Computes weight / sqrt(var + eps) * (g - (y sums[0] + sums[1]) / count), in which y is the
  /// normalised input.
  static at::Tensor of_input(const at::Tensor& g, const Kept& k, const Tensors& sums,
                             const at::Tensor& count);
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// Batch norm over the rows of all ranks that train the model: torch.nn.SyncBatchNorm, with the
/// options, parameters and buffers of torch::nn::BatchNorm1d, 2d and 3d, whose place it can take.
/// It finds the ranks of the trainer that computes the loss. In evaluation mode, with one rank and
/// outside of a trainer it is LibTorch's batch norm, to the bit. In training mode all ranks call
/// it: forward sends the sums of its channels, 8 + 16 C bytes, to each other rank, backward sends 4
/// C elements, and a recompute of a checkpoint sends the sums of forward again. Statistics are in
/// FP32 (FP64 for FP64), summed over ranks in their order, so that all have the same bits. A rank
/// without rows takes part. Throws BadBatch if all ranks together have one value in a channel, and
/// BadModel if ranks call different layers. Sources: Ioffe and Szegedy, arXiv:1502.03167;
/// torch.nn.SyncBatchNorm.
struct SyncBatchNormImpl : torch::nn::BatchNormImplBase<0, SyncBatchNormImpl>,
                           detail::CallsAllRanks,
                           detail::HasRunningStatistics {
  /// The base class, whose constructors it has.
  using Base = torch::nn::BatchNormImplBase<0, SyncBatchNormImpl>;
  using Base::Base;

  /// Takes x (N, C, *), of two dimensions or more; the result has its shape, dtype and memory
  /// format.
  at::Tensor forward(const at::Tensor& x);
  /// Returns the running statistics, which a recompute of a checkpoint leaves as they are.
  IKEBANA_INLINE detail::RunningStatistics running_statistics() override;
  /// Writes the layer as printing a model shows it.
  IKEBANA_INLINE void pretty_print(std::ostream& out) const override;

 protected:
  IKEBANA_INLINE void _check_input_dim(const at::Tensor& x) override;

 private:
  at::Tensor over_ranks(const at::Tensor& x, const detail::RankScope& ranks);
  /// Checks the count, with the same result on all ranks. The host cannot read the count of a
  /// device.
  static void check(const std::string& name, const at::Tensor& count);
  /// Updates the running statistics. They keep their values if no rank has a row.
  void track(const detail::JoinedStatistics& all);
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/sync_batch_norm.ipp>
#endif
