#pragma once
// modules::linear_cross_entropy: cross entropy of a linear layer's output, in chunks of logits.
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <ikebana/loss.hpp>
#include <string>

namespace ikebana::modules {

/// The options of cross_entropy, with its names, and the bias of the linear layer.
struct LinearCrossEntropyOptions {
  /// (V), added to every row of logits.
  at::Tensor bias{};
  /// Targets of this value are ignored: they have no loss and no gradient, and are not counted.
  std::int64_t ignore_index = -100;
  /// The share of a target's weight that is spread evenly over all classes; from 0 to 1.
  double label_smoothing = 0;
  /// How many rows of logits exist at once; 0: as many as fit into 20 MiB, or on a
  /// device into 256 MiB, but at least 16.
  std::int64_t chunk_rows = 0;
};

}  // namespace ikebana::modules

namespace ikebana::detail {

/// The checked arguments of one call: rows of hidden states and their targets.
class LinearCrossEntropyCall {
 public:
  LinearCrossEntropyCall(const at::Tensor& hidden, const at::Tensor& weight,
                         const at::Tensor& target, const modules::LinearCrossEntropyOptions& o);

  Loss run();

 private:
  at::ScalarType compute_dtype() const;

  void check_tensors() const;

  void check_sizes() const;

  void check_options() const;

  void check_targets() const;

  [[noreturn]] void refuse(const std::string& why) const;

  at::Tensor hidden_, weight_, target_, kept_;
  modules::LinearCrossEntropyOptions options_;
  Count count_;
  bool on_cpu_ = false;  // where the host may read
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// cross_entropy(linear(hidden, weight, bias), target, reduction='sum'), and the number of targets
/// that are not ignored. The logits exist for some rows at a time only. hidden (..., E), weight
/// (V, E), target (...) of class indices. Forward also computes the gradients, chunk by chunk, and
/// backward scales them. Cost: 20 MiB of logits at a time, 256 MiB on a device, and the gradients;
/// logits are not computed again, except inside a checkpoint, which runs all of it twice. Under
/// autocast the products are in its dtype and the losses in FP32; the weight's gradient is
/// accumulated in FP32. A second derivative is exact and computes all logits at once. Throws Error
/// if sizes, dtypes, devices, targets or options do not fit. Source: torch.nn.functional.linear and
/// cross_entropy.
Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& target, const LinearCrossEntropyOptions& options = {});

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/linear_cross_entropy.ipp>
#endif
