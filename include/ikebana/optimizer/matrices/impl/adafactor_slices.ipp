#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/matrices/adafactor_slices.hpp>

namespace ikebana::detail {

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
