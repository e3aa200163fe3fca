#pragma once
#include <cmath>
#include <ikebana/detail/finite_checks.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/number.hpp>
#include <ikebana/detail/without_values.hpp>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE void FiniteChecks::add(std::vector<at::Tensor> numbers, Raise raise) {
  all_.push_back({std::move(numbers), std::move(raise)});
}

IKEBANA_INLINE std::vector<at::Tensor> FiniteChecks::numbers() const {
  std::vector<at::Tensor> all;
  for (const Check& check : all_)
    for (const at::Tensor& t : check.numbers) {
      const bool wide = t.scalar_type() == at::kFloat || t.scalar_type() == at::kDouble;
      all.push_back(wide ? t : t.to(at::kFloat));
    }
  return all;
}

IKEBANA_INLINE FiniteChecks::Raise FiniteChecks::take() {
  return [all = std::exchange(all_, {})] {
    for (const Check& check : all)
      for (const at::Tensor& t : check.numbers)
        if (!std::isfinite(number(t))) check.raise();
    all.front().raise();
  };
}

IKEBANA_INLINE at::Tensor FiniteChecks::one(const at::Tensor& like) {
  const auto options = at::TensorOptions(like.device()).dtype(at::kFloat);
  if (without_values()) return at::ones({}, options);
  if (!one_.defined() || one_.device() != like.device()) one_ = at::ones({}, options);
  return one_;
}

}  // namespace ikebana::detail
