#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/optimizer/engine/by_operators.hpp>

namespace ikebana::detail {

IKEBANA_INLINE void add_quotient(const at::Tensor& p, const at::Tensor& a, const at::Tensor& b,
                                 double factor, at::Tensor) {
  p.addcdiv_(a, b, factor);
}

IKEBANA_INLINE void add_quotient(const at::Tensor& p, const at::Tensor& a, const at::Tensor& b,
                                 const at::Tensor& factor, at::Tensor spare) {
  p.addcdiv_(at::mul_out(spare, a, factor), b);
}

IKEBANA_INLINE void add_scaled(const at::Tensor& p, const at::Tensor& change, double factor,
                               at::Tensor) {
  p.add_(change, factor);
}

IKEBANA_INLINE void add_scaled(const at::Tensor& p, const at::Tensor& change,
                               const at::Tensor& factor, at::Tensor spare) {
  p.add_(at::mul_out(spare, change, factor));
}

IKEBANA_INLINE Slot number_slot(const char* name, double first) {
  auto make = [first](const at::Tensor& p, const Slice&) {
    return at::full({}, first, p.options().dtype(at::kFloat).requires_grad(false));
  };
  auto matches = [](const at::Tensor& state, const at::Tensor& p) {
    return state.device() == p.device();
  };
  return {.name = name, .make = make, .matches = matches, .cut = &all_rows};
}

}  // namespace ikebana::detail
