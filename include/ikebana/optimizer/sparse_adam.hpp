#pragma once
// Defines the policy SparseAdam and its mechanism.
#include <ikebana/optimizer/engine/fallback_optimizer.hpp>
#include <ikebana/optimizer/engine/per_parameter.hpp>

namespace ikebana {

/// Adam for gradients that are sparse by rows, such as the gradient of a `torch::nn::Embedding`
/// with sparse(true). Cost: a step reads and writes only the rows that have a gradient, of the
/// parameter and of its two moments; scratch is five times those rows. State: two moments as large
/// as the parameter, made at its first gradient. A row without a gradient is not changed, and its
/// moments do not decay, in contrast to Adam. `otherwise` updates parameters with dense gradients,
/// for which PyTorch needs a second optimizer; `groups` apply to the sparse ones. Fields and
/// defaults as torch.optim.SparseAdam.
struct SparseAdam {
  double lr = 1e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-8;                           ///< added to the denominator
  bool maximize = false;                       ///< maximises the loss instead
  AdamW otherwise = {};                        ///< updates parameters with dense gradients
  std::vector<Group> groups = {};              ///< sparse parameters with values of their own
};

namespace detail {

/// Returns the coalesced gradient. Throws BadModel if it is not sparse by rows and of its
/// parameter's dtype.
at::Tensor sparse_gradient(const at::Tensor& gradient, const at::Tensor& p,
                           const std::string& name);

/// Updates the rows of one parameter that have a gradient: copies them to scratch, updates them
/// there, and writes them back.
class RowsStep {
 public:
  static std::int64_t scratch(const at::Tensor& gradient);
  RowsStep(const ParameterUpdate& update, const SparseAdam& values)
      : update_(update),
        v_(values),
        rows_(update.gradient()._indices().select(0, 0)),
        g_(update.gradient()._values()) {}
  template <class Number>
  void update(const Number& lr, const Number& step) {
    if (g_.numel() == 0) return;
    if (v_.maximize) g_.neg_();
    at::Tensor first = update_moment(0, g_, update_.betas()[0]);
    at::Tensor squares = update_.scratch.like(g_);
    at::Tensor second = update_moment(1, at::mul_out(squares, g_, g_), update_.betas()[1]);
    Number size = lr * root(bias_correction(update_.betas()[1], step)) /
                  bias_correction(update_.betas()[0], step);
    second.sqrt_().add_(update_.eps());
    first.div_(second).mul_(-size);
    at::index_select_out(second, update_.parameter(), 0, rows_);
    update_.parameter().index_copy_(0, rows_, first.add_(second));
  }

 private:
  /// Returns before + (1 - beta) (target - before), which it also writes to the state.
  at::Tensor update_moment(std::size_t slot, const at::Tensor& target, double beta);

  const ParameterUpdate& update_;
  const SparseAdam& v_;
  at::Tensor rows_, g_;
};

/// SparseAdam's update of parameters with sparse gradients, without the optimizer of the others.
struct SparseRows : PerParameterOptimizer<SparseAdam> {
  explicit SparseRows(SparseAdam v);

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(
        masters, gradients, rate, 2,
        [](const at::Tensor&, const at::Tensor& g) { return RowsStep::scratch(g); },
        sparse_gradient);
  }
  void update(const Masters&, StepGradients& gradients);
  std::string describe() const;
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }
  /// Deleted: the host decides which rows are updated, so the step cannot be recorded.
  template <class Visit>
  void each_number(const Visit&) const = delete;

 protected:
  void check_values() const;
};

template <>
struct without_fallback<SparseAdam> {
  using type = SparseRows;
};

}  // namespace detail

template <>
struct Mechanism<SparseAdam> : detail::WithFallback<detail::SparseRows> {
  explicit Mechanism(SparseAdam v) : WithFallback(std::move(v)) {}

  void begin(const Masters& masters);
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();  // checks the values before AdamW makes its state
    auto is_sparse = [&](std::size_t i, const at::Tensor& gradient) {
      bool sparse = gradient.is_sparse();
      if (is_sparse_[i].value_or(sparse) != sparse) throw_sparse_and_dense(masters.names[i]);
      is_sparse_[i] = sparse;
      return sparse;
    };
    StepGradients& sparse =
        fallback_.prepare(values.otherwise, masters, gradients, rate, is_sparse);
    SparseRows::prepare(masters, sparse, rate);
  }

 private:
  [[noreturn]] static void throw_sparse_and_dense(const std::string& name);

  std::vector<std::optional<bool>> is_sparse_;  // whether its gradient is sparse, for each master;
                                                // empty before its first gradient
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/impl/sparse_adam.ipp>
#endif
