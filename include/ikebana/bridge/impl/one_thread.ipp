#pragma once
#include <ikebana/bridge/one_thread.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch.hpp>
#include <ikebana/posix/library.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE OneThread::OneThread() : before_(at::get_num_threads()) {
  if (openmp()) openmp()(1);
  if (mkl()) mkl_before_ = mkl()(1);
}

IKEBANA_INLINE OneThread::~OneThread() {
  if (openmp()) openmp()(before_);
  if (mkl()) mkl()(mkl_before_);
}

IKEBANA_INLINE void (*OneThread::openmp())(int) {
  static const auto set =
      reinterpret_cast<void (*)(int)>(ikebana::detail::find_symbol("omp_set_num_threads"));
  return set;
}

IKEBANA_INLINE int (*OneThread::mkl())(int) {
  static const auto set =
      reinterpret_cast<int (*)(int)>(ikebana::detail::find_symbol("MKL_Set_Num_Threads_Local"));
  return set;
}

}  // namespace ikebana::bridge
