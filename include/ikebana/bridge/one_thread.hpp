#pragma once
// Restricts LibTorch's operators to the calling thread.

namespace ikebana::bridge {

/// RAII: operators that this thread calls run on this thread alone. Costs some nanoseconds. Unlike
/// `at::set_num_threads(1)`, it does not change threads that start later. Does nothing if
/// LibTorch was built without OpenMP.
class OneThread {
 public:
  // get_num_threads() also makes LibTorch set the thread's initial number, which it does once per
  // thread, so that it does not do so later and overwrite the 1.
  OneThread();
  ~OneThread();
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  // Both settings are per thread. LibTorch ships its own OpenMP and MKL. MKL's lower-case names are
  // its Fortran interface.
  static void (*openmp())(int);
  static int (*mkl())(int);

  int before_, mkl_before_ = 0;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/one_thread.ipp>
#endif
