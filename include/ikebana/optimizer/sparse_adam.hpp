#pragma once
// The policy SparseAdam and its mechanism.
#include <ikebana/optimizer/fallback_optimizer.hpp>
#include <ikebana/optimizer/per_parameter.hpp>

namespace ikebana {

/// Adam for gradients that are sparse by rows, such as those of a `torch::nn::Embedding` with
/// sparse(true). Cost: a step reads and writes only the rows that have a gradient, of the parameter
/// and of its two moments; scratch is five times those rows. State: two moments as large as the
/// parameter, made at its first gradient. A row without a gradient is not changed, and its moments
/// do not decay, in contrast to Adam. `otherwise` updates parameters with dense gradients, for
/// which PyTorch needs a second optimizer; `groups` apply to the sparse ones. Fields and defaults
/// as torch.optim.SparseAdam.
struct SparseAdam {
  double lr = 1e-3;                            ///< learning rate; a schedule multiplies it
  std::array<double, 2> betas = {0.9, 0.999};  ///< decay of the first and second moment, in [0, 1)
  double eps = 1e-8;                           ///< added to the denominator
  bool maximize = false;                       ///< maximises the loss instead
  AdamW otherwise = {};                        ///< updates parameters with dense gradients
  std::vector<Group> groups = {};              ///< sparse ones with values of their own
};

namespace detail {

/// The coalesced gradient. Throws BadModel if it is not sparse by rows and of its parameter's
/// dtype.
inline at::Tensor sparse_gradient(const at::Tensor& gradient, const at::Tensor& p,
                                  const std::string& name) {
  if (!gradient.is_sparse())
    throw BadModel("SparseAdam: the gradient of `" + name +
                   "` is dense, and SparseAdam updates the rows of sparse ones. Make the embedding "
                   "with sparse(true), or give the parameter to the other optimizer by `match`.");
  if (gradient.sparse_dim() != 1 || gradient.scalar_type() != p.scalar_type())
    throw BadModel("SparseAdam: the gradient of `" + name + "` has " +
                   std::to_string(gradient.sparse_dim()) + " sparse dimensions and dtype " +
                   c10::toString(gradient.scalar_type()) +
                   "; it must be sparse by rows and of the parameter's dtype, as those of sparse "
                   "embeddings. Make it dense, and write Adam.");
  return gradient.coalesce();
}

/// Updates the rows of one parameter that have a gradient: copies them to scratch, updates them
/// there, and writes them back.
class RowsStep {
 public:
  static std::int64_t scratch(const at::Tensor& gradient) {
    const at::Tensor values = gradient._values();
    return 5 * Scratch::bytes(values.numel(), values.scalar_type());
  }
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
  at::Tensor update_moment(std::size_t slot, const at::Tensor& target, double beta) {
    at::Tensor before = update_.scratch.like(g_), after = update_.scratch.like(g_);
    at::index_select_out(before, update_.state(slot), 0, rows_);
    at::sub_out(after, target, before).mul_(1 - beta).add_(before);
    update_.state(slot).index_copy_(0, rows_, after);
    return after;
  }

  const ParameterUpdate& update_;
  const SparseAdam& v_;
  at::Tensor rows_, g_;
};

/// Makes room for copies of the rows that an update of a bucket changes.
inline void keep_rows(Bucket& b) {
  for (std::size_t j = 0; j < b.indices.size(); ++j) {
    const at::Tensor rows = b.gradients[j]._indices().select(0, 0);
    b.copies.reserve_rows(b.parameters[j], rows);
    for (const Tensors& slot : b.state) b.copies.reserve_rows(slot[j], rows);
  }
}

/// SparseAdam's update, of parameters with sparse gradients alone.
template <std::same_as<SparseAdam> Policy>
struct SparseRows : PerParameterOptimizer<SparseAdam> {
  explicit SparseRows(SparseAdam v)
      : PerParameterOptimizer(std::move(v), {{"exp_avg"}, {"exp_avg_sq"}}) {
    by_operators_ = true;
    check_values();
  }

  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    prepare_each(
        masters, gradients, rate, 2,
        [](const at::Tensor&, const at::Tensor& g) { return RowsStep::scratch(g); },
        sparse_gradient);
  }
  void update(const Masters&, StepGradients& gradients) {
    auto update_rows = [&](const ParameterUpdate& update) {
      RowsStep rows(update, values);
      update.with_lr_and_step([&](const auto& lr, const auto& step) { rows.update(lr, step); });
    };
    each_parameter(gradients, update_rows, keep_rows);
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", betas=(" + c10::str(values.betas[0]) + ", " +
           c10::str(values.betas[1]) + "), eps=" + c10::str(values.eps) +
           (values.maximize ? ", maximize" : "");
  }
  void state(Archive& archive, const Masters& masters) { save(archive, masters, 2); }
  /// None: which rows it updates is known to the host, so that its step cannot be recorded.
  template <class Visit>
  void each_number(const Visit&) const = delete;

 protected:
  void check_values() const {
    check_rate(), check_betas();
    check(values.eps > 0 && std::isfinite(values.eps),
          [&] { return "eps is " + c10::str(values.eps) + "; it must be finite and positive."; });
    for (const Group& group : values.groups)
      check(group.eps.value_or(1) > 0, "a group's eps is 0; it must be finite and positive.");
  }
};

template <>
struct without_fallback<SparseAdam> {
  using type = SparseRows<SparseAdam>;
};

}  // namespace detail

template <std::same_as<SparseAdam> Policy>
struct Mechanism<Policy> : detail::WithFallback<detail::SparseRows<SparseAdam>> {
  explicit Mechanism(SparseAdam v) : WithFallback(std::move(v)) {}

  void begin(const Masters& masters) {
    SparseRows::begin(masters);
    fallback_.mechanism.begin(masters);
    is_sparse_.assign(masters.values.size(), std::nullopt);
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();  // before AdamW makes its state
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
  [[noreturn]] static void throw_sparse_and_dense(const std::string& name) {
    throw BadModel("SparseAdam: the gradient of `" + name +
                   "` is sparse in some steps and dense in others, as if an embedding is the head, "
                   "too. Make it dense in all steps: sparse(false).");
  }

  std::vector<std::optional<bool>> is_sparse_;  // of each master; empty before its first gradient
};

}  // namespace ikebana
