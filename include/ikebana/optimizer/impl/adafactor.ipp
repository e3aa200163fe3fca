#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/slice.hpp>
#include <ikebana/optimizer/adafactor.hpp>
#include <ikebana/ranks/rank_group.hpp>

namespace ikebana::detail {

/// Returns the shape of `t` with size 1 in dimension `dim`, which counts from the end: -1 or -2.
inline at::DimVector reduced_shape(const at::Tensor& t, std::int64_t dim) {
  at::DimVector sizes(t.sizes());
  if (t.dim() > 1) sizes[static_cast<std::size_t>(t.dim() + dim)] = 1;
  return sizes;
}
/// Returns torch.finfo(type).eps.
inline double epsilon_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return std::numeric_limits<double>::epsilon();
    case at::kFloat:
      return std::numeric_limits<float>::epsilon();
    case at::kBFloat16:
      return 0x1p-7;
    default:
      return 0x1p-10;
  }
}

/// Updates one whole parameter, by the operators of torch.optim.Adafactor.
class AdafactorStep {
 public:
  AdafactorStep(const ParameterUpdate& update, const Adafactor& values)
      : update_(update), v_(values), p_(update.parameter()), g_(update.gradient()) {}

  static std::int64_t scratch(const at::Tensor& p) {
    auto bytes = [&](std::int64_t n) { return Scratch::bytes(n, p.scalar_type()); };
    if (p.dim() < 2) return bytes(p.numel());
    return bytes(p.numel()) + 2 * bytes(c10::multiply_integers(reduced_shape(p, -1))) +
           bytes(c10::multiply_integers(reduced_shape(p, -2)));
  }
  /// `Number` is double, or a tensor if the host may not read it.
  template <class Number>
  void update(const Number& lr, const Number& step) {
    if (v_.maximize) g_.neg_();
    auto n = std::sqrt(static_cast<double>(p_.numel()));
    const double eps = v_.eps.first.value_or(epsilon_of(p_.scalar_type()));
    Number alpha = at_least(norm(p_, lr) / n, v_.eps.second) * smaller(lr, 1 / root(step));
    if (update_.weight_decay() != 0) p_.mul_(1 - lr * update_.weight_decay());
    at::Tensor change = update_.scratch.allocate(p_.sizes(), p_.scalar_type());
    estimate(change, power(step, v_.beta2_decay), eps);
    change.clamp_min_(eps * eps).rsqrt_().mul_(g_);
    subtract_scaled(p_, change, alpha / at_least(norm(change, lr) / (n * v_.d), 1));
  }

 private:
  template <class Number>
  static Number norm(const at::Tensor& t, const Number& like) {
    return as_number(at::linalg_vector_norm(t), like);
  }
  /// Updates the second moment and writes it, unfactored, to `out`.
  template <class Number>
  void estimate(at::Tensor& out, const Number& weight, double eps) {
    if (p_.dim() < 2) {
      const at::Tensor& variance = update_.state(2);
      lerp_inplace(variance, at::mul_out(out, g_, g_), weight);
      out.copy_(variance);
      return;
    }
    const at::Tensor &row = update_.state(0), &column = update_.state(1);
    lerp_inplace(row, mean_of_squares(-1), weight);
    lerp_inplace(column, mean_of_squares(-2), weight);
    at::matmul_out(out, row, column);
    at::Tensor mean = update_.scratch.allocate(reduced_shape(row, -2), p_.scalar_type());
    at::mean_out(mean, row, at::IntArrayRef(-2), /*keepdim=*/true);
    out.div_(mean.clamp_min_(eps));
  }
  at::Tensor mean_of_squares(std::int64_t dim) {
    at::Tensor mean = update_.scratch.allocate(reduced_shape(g_, dim), g_.scalar_type());
    at::linalg_vector_norm_out(mean, g_, 2, at::IntArrayRef(dim), /*keepdim=*/true);
    return mean.square_().div_(g_.size(dim));
  }

  const ParameterUpdate& update_;
  const Adafactor& v_;
  const at::Tensor &p_, &g_;
};

/// Checks and makes the slot that holds means over dimension `dim` of a parameter.
template <int dim>
bool means_match(const at::Tensor& state, const at::Tensor& p) {
  return p.dim() > 1 && state.sizes() == at::IntArrayRef(reduced_shape(p, dim)) &&
         state.dtype() == p.dtype() && state.device() == p.device();
}
template <int dim>
at::Tensor means_of(const at::Tensor& p, const Slice&) {
  return p.dim() > 1 ? at::zeros(reduced_shape(p, dim), p.options()) : at::Tensor();
}

/// All ranks have the same means over the rows of a matrix.
inline Slice cut_of_columns(const at::Tensor& state, const Slice& of_master, std::int64_t) {
  return of_master.sizes.size() == 2 ? all_rows(state, of_master) : same_rows(state, of_master);
}

/// Updates parameters that are cut among ranks. A rank has the means over columns of its own rows;
/// means over the rows of a matrix, the mean of the column means, and norms are summed over ranks:
/// two sums for all parameters together, of m + 3 numbers for an (n, m) matrix. Makes three passes
/// over the parameters; the last two compute the change, since no rank has memory for all changes.
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
  std::vector<std::int64_t> begins_;  // the offset of each matrix in its columns_
  at::Tensor numbers_, norms_;  // the sums of the parameter and of row_var, and the norms of the
                                // change, by parameter
  at::Tensor columns_[2];       // the columns of Float matrices, and of Double matrices
};

IKEBANA_INLINE AdafactorSlices::AdafactorSlices(std::vector<CutParameter>& all,
                                                const Adafactor& values, RankGroup& ranks)
    : all_(all), v_(values), ranks_(ranks) {
  std::int64_t length[2] = {0, 0};
  for (const CutParameter& one : all) {
    std::int64_t& n = length[is_double(one)];
    begins_.push_back(n);
    if (is_matrix(one)) n += one.slice().sizes[1];
  }
  if (all.empty()) return;
  const at::TensorOptions options = all[0].options();
  numbers_ = at::zeros({std::ssize(all), 2}, options.dtype(at::kDouble));
  norms_ = at::zeros({std::ssize(all)}, options.dtype(at::kDouble));
  for (int i = 0; i < 2; ++i)
    columns_[i] = at::zeros({length[i]}, options.dtype(i == 0 ? at::kFloat : at::kDouble));
}

IKEBANA_INLINE void AdafactorSlices::update() {
  if (all_.empty()) return;
  for (std::size_t k = 0; k < all_.size(); ++k)
    visit(k, false, [&](const auto& update, const auto&, const auto& step) {
      add_up(k, update, power(step, v_.beta2_decay));
    });
  sum({&numbers_, &columns_[0], &columns_[1]});
  for (std::size_t k = 0; k < all_.size(); ++k)
    visit(k, false, [&](const auto& update, const auto& lr, const auto& step) {
      if (is_matrix(all_[k])) update_columns(k, update, power(step, v_.beta2_decay));
      norms_[index(k)].copy_(squared_norm(change(k, update, lr)));
    });
  sum({&norms_});
  for (std::size_t k = 0; k < all_.size(); ++k)
    visit(k, true, [&](const auto& update, const auto& lr, const auto& step) {
      apply(k, update, lr, step);
    });
}

IKEBANA_INLINE at::Tensor AdafactorSlices::squared_norm(const at::Tensor& t) {
  return at::linalg_vector_norm(t).to(at::kDouble).square();
}

IKEBANA_INLINE void AdafactorSlices::sum(const std::vector<at::Tensor*>& all) {
  std::vector<at::Tensor> values;
  for (const at::Tensor* t : all) values.push_back(*t);
  ranks_.sum(values);
  for (std::size_t i = 0; i < all.size(); ++i) *all[i] = values[i];
}

IKEBANA_INLINE at::Tensor AdafactorSlices::columns(std::size_t k) const {
  return columns_[is_double(all_[k])].narrow(0, begins_[k], all_[k].slice().sizes[1]);
}

IKEBANA_INLINE double AdafactorSlices::epsilon(const at::Tensor& p) const {
  return v_.eps.first.value_or(epsilon_of(p.scalar_type()));
}

IKEBANA_INLINE at::Tensor AdafactorSlices::mean_of_squares(const at::Tensor& g, std::int64_t dim) {
  return at::linalg_vector_norm(g, 2, at::IntArrayRef(dim), /*keepdim=*/true)
      .square_()
      .div_(g.size(dim));
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE Mechanism<Adafactor>::Mechanism(Adafactor v)
    : PerParameterOptimizer(std::move(v), state_slots()) {
  by_operators_ = needs_whole_ = updates_cut_ = true;
  check_values();
}

IKEBANA_INLINE void Mechanism<Adafactor>::update(const Masters&, StepGradients& gradients) {
  if (ranks_ != nullptr)
    return update_cut(gradients, [&](std::vector<CutParameter>& all) {
      detail::AdafactorSlices(all, values, *ranks_).update();
    });
  update_each(gradients, [&](const ParameterUpdate& update) {
    update.with_lr_and_step([&](const auto& lr, const auto& step) {
      detail::AdafactorStep(update, values).update(lr, step);
    });
  });
}

IKEBANA_INLINE std::int64_t Mechanism<Adafactor>::scratch_bytes(const at::Tensor& p) {
  return detail::AdafactorStep::scratch(p);
}

IKEBANA_INLINE std::string Mechanism<Adafactor>::describe() const {
  return "lr=" + c10::str(values.lr) + ", beta2_decay=" + c10::str(values.beta2_decay) +
         ", d=" + c10::str(values.d) + ", weight_decay=" + c10::str(values.weight_decay) +
         (values.maximize ? ", maximize" : "");
}

IKEBANA_INLINE std::vector<Slot> Mechanism<Adafactor>::state_slots() {
  auto vector_only = [](const at::Tensor& p, const Slice&) {
    return p.dim() > 1 ? at::Tensor() : at::zeros_like(p);
  };
  return {{"row_var", detail::means_of<-1>, detail::means_match<-1>},
          {"col_var", detail::means_of<-2>, detail::means_match<-2>, detail::cut_of_columns},
          {"variance", vector_only}};
}

IKEBANA_INLINE void Mechanism<Adafactor>::check_values() const {
  check_rate();
  check(values.beta2_decay <= 0 && std::isfinite(values.beta2_decay), [&] {
    return "beta2_decay is " + c10::str(values.beta2_decay) +
           "; it must be finite, and 0 or negative.";
  });
  check(values.d >= 1, [&] { return "d is " + c10::str(values.d) + "; it must be 1 or more."; });
  const double eps = values.eps.first.value_or(0);
  check(eps >= 0 && values.eps.second >= 0 && std::isfinite(eps + values.eps.second),
        "a value of eps is negative or not finite; both must be finite and 0 or more.");
}

}  // namespace ikebana
