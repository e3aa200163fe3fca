#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/precision/tf32.hpp>

namespace ikebana {

IKEBANA_INLINE Mechanism<Precision<TF32>>::Permission::Permission(bool set) : set_(set) {
  if (!set_) return;
  auto& context = at::globalContext();
  blas_ = context.allowTF32CuBLAS(), dnn_ = context.allowTF32CuDNN();
  context.setAllowTF32CuBLAS(true), context.setAllowTF32CuDNN(true);
}

IKEBANA_INLINE Mechanism<Precision<TF32>>::Permission::~Permission() {
  if (!set_) return;
  at::globalContext().setAllowTF32CuBLAS(blas_), at::globalContext().setAllowTF32CuDNN(dnn_);
}

IKEBANA_INLINE std::string Mechanism<Precision<TF32>>::describe() const {
  return effective ? "TensorFloat-32 matrix products" : "has no effect on this device";
}

}  // namespace ikebana
