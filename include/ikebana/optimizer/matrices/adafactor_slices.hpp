#pragma once
// Adafactor's update of parameters that are cut among ranks.
#include <ikebana/optimizer/matrices/adafactor_step.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// A rank has the means over columns of its own rows; means over the rows of a matrix, the mean of
/// the former, and norms are summed over ranks: two sums for all parameters together, of m + 3
/// numbers for an (n, m) matrix. Three passes over the parameters, of which the last two compute
/// the change, since no rank has memory for those of all.
class AdafactorSlices {
 public:
  AdafactorSlices(std::vector<CutParameter>& all, const Adafactor& values, RankGroup& ranks);
  void update();

 private:
  static bool is_double(const CutParameter& one) { return one.options().dtype() == at::kDouble; }
  static bool is_matrix(const CutParameter& one) { return one.slice().sizes.size() == 2; }
  static std::int64_t index(std::size_t k) { return static_cast<std::int64_t>(k); }
  static at::Tensor squared_norm(const at::Tensor& t);
  template <class F>
  void visit(std::size_t k, bool writes, const F& f) {
    auto with_numbers = [&](const ParameterUpdate& update) {
      update.with_lr_and_step([&](const auto& lr, const auto& step) { f(update, lr, step); });
    };
    if (writes) all_[k].write(with_numbers);
    else all_[k].read(with_numbers);
  }
  void sum(const std::vector<at::Tensor*>& all);
  /// Sums of squares over the rows of matrix k.
  at::Tensor columns(std::size_t k) const;
  double elements(std::size_t k) const { return static_cast<double>(all_[k].slice().numel()); }
  double rows(std::size_t k) const { return static_cast<double>(all_[k].slice().all_rows()); }
  double epsilon(const at::Tensor& p) const;

  /// Updates the second moments that this rank has alone, and computes its part of the sums.
  template <class Number>
  void add_up(std::size_t k, const ParameterUpdate& update, const Number& weight) {
    const at::Tensor &p = update.parameter(), &g = update.gradient();
    numbers_[index(k)][0].copy_(squared_norm(p));
    if (p.dim() < 2) return lerp_inplace(update.state(2), g.square(), weight);
    lerp_inplace(update.state(0), mean_of_squares(g, -1), weight);
    if (p.dim() > 2) return lerp_inplace(update.state(1), mean_of_squares(g, -2), weight);
    numbers_[index(k)][1].copy_(update.state(0).sum(at::kDouble));
    columns(k).copy_(at::linalg_vector_norm(g, 2, at::IntArrayRef(0)).square_());
  }
  static at::Tensor mean_of_squares(const at::Tensor& g, std::int64_t dim);
  template <class Number>
  void update_columns(std::size_t k, const ParameterUpdate& update, const Number& weight) {
    const at::Tensor& column = update.state(1);
    lerp_inplace(column, (columns(k) / rows(k)).to(column.scalar_type()).view_as(column), weight);
  }
  template <class Number>
  at::Tensor change(std::size_t k, const ParameterUpdate& update, const Number& like) const {
    const at::Tensor &p = update.parameter(), &row = update.state(0);
    const double eps = epsilon(p);
    at::Tensor out = update.scratch.like(p);
    if (p.dim() < 2) out.copy_(update.state(2));
    else at::matmul_out(out, row, update.state(1));
    if (p.dim() == 2) out.div_(at_least(as_number(numbers_[index(k)][1], like) / rows(k), eps));
    if (p.dim() > 2) out.div_(at::mean(row, at::IntArrayRef(-2), /*keepdim=*/true).clamp_min_(eps));
    out.clamp_min_(eps * eps).rsqrt_().mul_(update.gradient());
    return v_.maximize ? out.neg_() : out;
  }
  template <class Number>
  void apply(std::size_t k, const ParameterUpdate& update, const Number& lr, const Number& step) {
    const at::Tensor& p = update.parameter();
    const double n = std::sqrt(elements(k));
    const Number norm = root(as_number(numbers_[index(k)][0], lr)),
                 norm_of_change = root(as_number(norms_[index(k)], lr));
    const Number alpha = at_least(norm / n, v_.eps.second) * smaller(lr, 1 / root(step));
    const at::Tensor of_rows = change(k, update, lr);
    if (update.weight_decay() != 0) p.mul_(1 - lr * update.weight_decay());
    subtract_scaled(p, of_rows, alpha / at_least(norm_of_change / (n * v_.d), 1));
  }

  std::vector<CutParameter>& all_;
  const Adafactor& v_;
  RankGroup& ranks_;
  std::vector<std::int64_t> begins_;  // of each matrix in its columns_
  at::Tensor numbers_, norms_;  // by parameter: of the parameter and of row_var; of the change
  at::Tensor columns_[2];       // those in Float, those in Double
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/optimizer/matrices/impl/adafactor_slices.ipp>
#endif
