#pragma once
// modules::SyncBatchNorm: torch.nn.SyncBatchNorm, whose statistics are those of all ranks' rows.
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/running_statistics.hpp>
#include <ikebana/ranks/rank_calls.hpp>
#include <optional>
#include <string>

namespace ikebana::detail {

/// The statistics of each channel over the rows of all ranks.
struct JoinedStatistics {
  at::Tensor mean, var;  ///< (C), FP32 or FP64; var is the biased one
  at::Tensor count;      ///< values in a channel; FP64, without dimensions

  static at::ScalarType dtype(const at::Tensor& x);
  /// This rank's part of the sums over ranks: the count, then of each channel the sum and the sum
  /// of squares. In FP64, so that the difference of large numbers that makes the variance is right
  /// to FP32 also where the mean is 1,000 standard deviations.
  static at::Tensor local_sums(const at::Tensor& x);
  static JoinedStatistics of_sums(const at::Tensor& sums, at::ScalarType type);
};

/// Normalises by joined statistics. Its gradient is that of the joined batch: one more sum over the
/// ranks. Keeps its input, and two elements for each channel.
struct NormalizeOverRanks : torch::autograd::Function<NormalizeOverRanks> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  /// x (N, C, *), weight and bias (C) if any.
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
  /// In the dtype of the statistics: LibTorch's kernel on a CPU adds up BF16 with three digits.
  static at::Tensor in(const at::Tensor& mean, const at::Tensor& t);
  /// (x - mean) / sqrt(var + eps) * weight + bias, in one pass.
  static at::Tensor scaled(const Kept& k, const at::Tensor& weight, const at::Tensor& bias);
  /// Of this rank's rows: the sums of the gradient's products with the normalised input, which is
  /// the gradient of the weight, and of the gradient, which is that of the bias.
  static Tensors local_sums(const at::Tensor& g, const Kept& k);
  /// weight / sqrt(var + eps) * (g - (y sums[0] + sums[1]) / count), y the normalised input.
  static at::Tensor of_input(const at::Tensor& g, const Kept& k, const Tensors& sums,
                             const at::Tensor& count);
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// Batch norm over the rows of all ranks that train the model: torch.nn.SyncBatchNorm, with the
/// options, parameters and buffers of torch::nn::BatchNorm1d, 2d and 3d, whose place it can take.
/// It finds the ranks of the trainer that computes the loss. In evaluation mode, with one rank and
/// outside of a trainer it is LibTorch's batch norm, to the bit. A call of all ranks in training
/// mode: forward sends the sums of its channels, 8 + 16 C bytes, to each other rank, backward 4 C
/// elements, and a recompute of a checkpoint those of forward again. Statistics are in FP32 (FP64
/// for FP64), summed over ranks in their order, so that all have the same bits. A rank without rows
/// takes part. Throws BadBatch where all ranks together have one value in a channel, BadModel where
/// ranks call other layers. Sources: Ioffe and Szegedy, arXiv:1502.03167; torch.nn.SyncBatchNorm.
struct SyncBatchNormImpl : torch::nn::BatchNormImplBase<0, SyncBatchNormImpl>,
                           detail::CallsAllRanks,
                           detail::HasRunningStatistics {
  /// What it derives from, with its constructors.
  using Base = torch::nn::BatchNormImplBase<0, SyncBatchNormImpl>;
  using Base::Base;

  /// x (N, C, *), of two dimensions or more; the result has its shape, dtype and memory format.
  at::Tensor forward(const at::Tensor& x);
  /// The running statistics, which a recompute of a checkpoint leaves as they are.
  IKEBANA_INLINE detail::RunningStatistics running_statistics() override;
  /// As printing the model shows it.
  IKEBANA_INLINE void pretty_print(std::ostream& out) const override;

 protected:
  IKEBANA_INLINE void _check_input_dim(const at::Tensor& x) override;

 private:
  at::Tensor over_ranks(const at::Tensor& x, const detail::RankScope& ranks);
  /// On all ranks alike. Of a device the host cannot read it.
  static void check(const std::string& name, const at::Tensor& count);
  /// The running statistics: without a row on any rank they keep their values.
  void track(const detail::JoinedStatistics& all);
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/sync_batch_norm.ipp>
#endif
