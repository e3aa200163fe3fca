#pragma once
// modules::linear_cross_entropy: cross entropy of a linear layer's output, in chunks of logits.
#include <array>
#include <cstdint>
#include <ikebana/detail/torch.hpp>
#include <ikebana/loss.hpp>
#include <optional>
#include <string>
#include <tuple>

namespace ikebana::detail {

// The size of a chunk is large enough that reading and writing the weight's gradient once per chunk
// is cheap compared with the products, and small enough that a chunk stays in the outer caches of a
// CPU. A device needs larger products to be busy.
inline constexpr std::int64_t logits_chunk_bytes = 20 << 20, device_chunk_bytes = 256 << 20;
// Matrix products are faster with multiples of 16 rows.
inline constexpr std::int64_t logits_rows_step = 16;
// The size of the part of a half precision weight's gradient that is computed at once, before it is
// added in FP32.
inline constexpr std::int64_t half_slice_bytes = 1 << 20;

/// The options of one linear_cross_entropy.
struct CrossEntropyTask {
  at::ScalarType compute = at::kFloat;  // dtype of the products
  double label_smoothing = 0;
  std::int64_t chunk_rows = 0, ignore_index = 0;
  bool has_ignored = false;  // there may be rows that are not `kept`: without loss and gradient
  bool on_host = false;      // the host may read the targets
  at::Tensor kept = {};      // (rows) of bool
  std::array<bool, 3> needs_grad = {};  // for hidden, weight and bias

  /// Returns true if ignored rows take part and are masked, and false if they are left out.
  bool masks() const { return has_ignored && !on_host; }
  at::ScalarType wide() const { return compute == at::kDouble ? at::kDouble : at::kFloat; }
  std::int64_t rows_at_once(std::int64_t classes, bool on_cpu) const;
};

/// Computes the losses of all rows and, if needed, the gradients of their sum, in one pass over
/// chunks of logits. hidden (N, E), weight (V, E), bias (V) or undefined, target (N) of classes.
/// On a host rows of ignored targets take no part; elsewhere they are masked, because leaving them
/// out would have to wait for the device.
class ChunkedCrossEntropy {
 public:
  ChunkedCrossEntropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& target, const CrossEntropyTask& task);

  at::Tensor sum, grad_hidden, grad_weight, grad_bias;

 private:
  /// Allocates all whose size does not depend on targets first: a recorded step has planned memory
  /// for what is allocated in the same order each time.
  void allocate(std::int64_t rows, std::int64_t columns);
  void take_rows(const at::Tensor& hidden, const at::Tensor& target);
  void compute_chunk(std::int64_t first, std::int64_t rows);
  void compute_sum();
  /// Moves the gradients of the kept rows to their places, with zeros between them.
  void spread_rows();

  /// Writes the losses of log probabilities: -log p of the target, with label smoothing.
  void write_losses(at::Tensor& losses, const at::Tensor& log_p, const at::Tensor& target) const;
  /// Replaces log p by the gradient of the logits, p minus the target's distribution, in place.
  void to_gradient_(at::Tensor& log_p, const at::Tensor& target) const;
  void add_to_weight(const at::Tensor& gradient, const at::Tensor& hidden);

  const CrossEntropyTask& task_;
  // `rows_` has the kept rows if others are left out; hidden and targets are theirs then.
  at::Tensor hidden_, weight_, bias_, target_, rows_, logits_, scores_, losses_;
};

/// Computes the sum of the losses of all rows, and its gradients already in forward.
struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  using Context = torch::autograd::AutogradContext;
  using Tensors = torch::autograd::variable_list;

  /// The sum of the losses, and the gradients of hidden, weight and bias in their dtypes, undefined
  /// where they are not needed.
  using Computed = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

  static at::Tensor forward(Context* context, const at::Tensor& hidden, const at::Tensor& weight,
                            const std::optional<at::Tensor>& given_bias, const at::Tensor& target,
                            const CrossEntropyTask& task);

  static Tensors backward(Context* context, const Tensors& gradients);

 private:
  /// Throws Error for a target that is no class, on a host.
  static Computed compute(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& bias, const at::Tensor& target,
                          const CrossEntropyTask& task);
  /// Computes it on a host, as one operator of a recorded step: each replay reads its own targets.
  static Computed compute_on_host(const at::Tensor& hidden, const at::Tensor& weight,
                                  const std::optional<at::Tensor>& bias, const at::Tensor& target,
                                  const at::Tensor& kept, std::int64_t ignore_index,
                                  double label_smoothing, std::int64_t chunk_rows,
                                  at::ScalarType compute_dtype, bool hidden_gradient,
                                  bool weight_gradient, bool bias_gradient);
  // Computes the derivative for create_graph, by operators that autograd can differentiate.
  static Tensors differentiable_backward(Context& context, const Tensors& saved,
                                         const at::Tensor& gradient);
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// The options of cross_entropy, with its names, and the bias of the linear layer.
struct LinearCrossEntropyOptions {
  /// Bias (V), which is added to every row of logits.
  at::Tensor bias{};
  /// Targets of this value are ignored: they have no loss and no gradient, and are not counted.
  std::int64_t ignore_index = -100;
  /// The share of a target's weight that is spread evenly over all classes; from 0 to 1.
  double label_smoothing = 0;
  /// The number of rows of logits that exist at once; 0: as many as fit into 20 MiB, or on a device
  /// into 256 MiB, but at least 16.
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

  [[noreturn]] void refuse(const std::string& why) const;

  at::Tensor hidden_, weight_, target_;
  modules::LinearCrossEntropyOptions options_;
};

}  // namespace ikebana::detail

namespace ikebana::modules {

/// Computes cross_entropy(linear(hidden, weight, bias), target, reduction='sum'), and the number of
/// targets that are not ignored. Only the logits of some rows exist at a time. Takes hidden (...,
/// E), weight (V, E), and target (...) of class indices. Forward also computes the gradients, chunk
/// by chunk, and backward scales them. The cost is 20 MiB of logits at a time, 256 MiB on a device,
/// and the gradients. Logits are not computed again, except inside a checkpoint, which runs all of
/// it twice. Under autocast the products are in its dtype and the losses in FP32. The weight's
/// gradient is accumulated in FP32. A second derivative is exact and computes all logits at once.
/// Throws Error if sizes, dtypes, devices, targets or options do not fit. Source:
/// torch.nn.functional.linear and cross_entropy.
Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& target, const LinearCrossEntropyOptions& options = {});

}  // namespace ikebana::modules

#ifndef IKEBANA_COMPILED
#include <ikebana/modules/impl/linear_cross_entropy.ipp>
#endif
