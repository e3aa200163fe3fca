#pragma once
#include <ikebana/optimizer/per_parameter.hpp>
#include <ikebana/optimizer/fallback_optimizer.hpp>

namespace ikebana {

/// Adam for gradients that are sparse by rows, as those of a `torch::nn::Embedding` with
/// sparse(true): a step reads and writes only the rows that have a gradient, of the parameter and
/// of its two moments, and its scratch is five times those rows. The moments are as large as the
/// parameter and are made at the first gradient. A row without a gradient stays where it is, and
/// its moments do not fade: another algorithm than Adam, and the one of torch.optim.SparseAdam,
/// whose fields and defaults these are. Dense gradients are updated by `otherwise`, for which
/// PyTorch needs a second optimizer; `groups` are of the sparse ones.
struct SparseAdam {
  double lr = 1e-3;
  std::array<double, 2> betas = {0.9, 0.999};
  double eps = 1e-8;
  bool maximize = false;
  AdamW otherwise = {};
  std::vector<Group> groups = {};
};

namespace detail {

/// A gradient by rows, of its parameter's type. Throws BadModel for another.
inline at::Tensor by_rows(const at::Tensor& gradient, const at::Tensor& p,
                          const std::string& name) {
  if (gradient.sparse_dim() != 1 || gradient.scalar_type() != p.scalar_type())
    throw BadModel("SparseAdam: the gradient of `" + name +
                   "` is not sparse by rows, or of another type than the parameter. Sparse "
                   "embeddings make such; for others write Adam, and make the gradient dense.");
  return gradient.coalesce();
}

/// The rows of one parameter that have a gradient: read, updated in scratch, written back.
class RowsStep {
 public:
  static std::int64_t scratch(const at::Tensor& gradient) {
    const at::Tensor values = gradient._values();
    return 5 * Scratch::bytes(values.numel(), values.scalar_type());
  }
  RowsStep(const ParameterUpdate& one, const SparseAdam& values, const at::Tensor& found_inf)
      : one_(one),
        v_(values),
        rows_(one.gradient()._indices().select(0, 0)),
        g_(one.gradient()._values()) {
    if (found_inf.defined()) rejected_ = found_inf.ne(0);
  }
  template <class Number>
  void update(const Number& lr, const Number& step) noexcept {
    if (g_.numel() == 0) return;
    if (v_.maximize) g_.neg_();
    at::Tensor first = next(0, g_, v_.betas[0]);
    at::Tensor squares = one_.scratch.like(g_);
    at::Tensor second = next(1, at::mul_out(squares, g_, g_), v_.betas[1]);
    Number size = lr * root(1 - power(v_.betas[1], step)) / (1 - power(v_.betas[0], step));
    second.sqrt_().add_(v_.eps);
    first.div_(second).mul_(-size);
    at::index_select_out(second, one_.parameter(), 0, rows_);
    write(one_.parameter(), second, first.add_(second));
  }

 private:
  /// before + (1 - beta) (now - before), written to the state; `now` is then free.
  at::Tensor next(std::size_t slot, const at::Tensor& now, double beta) {
    at::Tensor before = one_.scratch.like(g_), after = one_.scratch.like(g_);
    at::index_select_out(before, one_.state(slot), 0, rows_);
    at::sub_out(after, now, before).mul_(1 - beta).add_(before);
    write(one_.state(slot), before, after);
    return after;
  }
  /// On a device, rows of a rejected step are written as they were.
  void write(const at::Tensor& to, const at::Tensor& before, at::Tensor& after) {
    if (rejected_.defined()) at::where_out(after, rejected_, before, after);
    to.index_copy_(0, rows_, after);
  }

  const ParameterUpdate& one_;
  const SparseAdam& v_;
  at::Tensor rows_, g_, rejected_;
};

}  // namespace detail

template <>
struct Mechanism<SparseAdam> : detail::EachParameter<SparseAdam> {
  explicit Mechanism(SparseAdam v)
      : EachParameter(std::move(v), {{"exp_avg"}, {"exp_avg_sq"}}), fallback_(values.otherwise) {
    check_values();
  }

  void begin(const Masters& masters) {
    EachParameter::begin(masters);
    fallback_.mechanism.begin(masters);
    is_sparse_.assign(masters.values.size(), std::nullopt);
  }
  template <class Rate>
  void prepare(const Masters& masters, StepGradients& gradients, const Rate& rate) {
    check_values();
    auto is_mine = [&](std::size_t i, const at::Tensor& gradient) {
      bool sparse = gradient.is_sparse();
      if (is_sparse_[i].value_or(sparse) != sparse) refuse_both(masters.names[i]);
      is_sparse_[i] = sparse;
      return sparse;
    };
    StepGradients& mine = fallback_.prepare(values.otherwise, masters, gradients, rate, is_mine);
    prepare_each(
        masters, mine, rate, 2,
        [](const at::Tensor&, const at::Tensor& g) { return detail::RowsStep::scratch(g); },
        detail::by_rows);
  }
  void update(const Masters& masters, StepGradients&) noexcept {
    each_parameter(fallback_.mine(), [&](const detail::ParameterUpdate& one, const at::Tensor& found_inf) {
      detail::RowsStep rows(one, values, found_inf);
      one.with_numbers([&](const auto& lr, const auto& step) { rows.update(lr, step); });
    });
    fallback_.update(masters);
  }
  void abort() noexcept {
    EachParameter::abort();
    fallback_.abort();
  }
  std::string describe() const {
    return "lr=" + c10::str(values.lr) + ", betas=(" + c10::str(values.betas[0]) + ", " +
           c10::str(values.betas[1]) + "), eps=" + c10::str(values.eps) +
           (values.maximize ? ", maximize" : "") + ", otherwise AdamW {" +
           Mechanism<AdamW>(values.otherwise).describe() + "}";
  }
  void state(Archive& archive, const Masters& masters) {
    save(archive, masters, 2);
    fallback_.state(archive, values.otherwise, masters);
  }

 private:
  [[noreturn]] static void refuse_both(const std::string& name) {
    throw BadModel("SparseAdam: the gradient of `" + name +
                   "` is sparse in some steps and dense in others, as where an embedding is the "
                   "head, too. Make it dense in all: sparse(false).");
  }
  void check_values() const {
    check_rate(), check_betas();
    check(values.eps > 0, "eps must be positive.");
  }

  std::vector<std::optional<bool>> is_sparse_;  // of each master, once its gradient was seen
  detail::FallbackOptimizer fallback_;
};

}  // namespace ikebana
