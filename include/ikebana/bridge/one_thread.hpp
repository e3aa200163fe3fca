#pragma once
// LibTorch's operators on the calling thread alone.
#include <dlfcn.h>

#include <ikebana/detail/torch.hpp>

namespace ikebana::bridge {

/// RAII: while alive, operators that this thread calls use no other thread. Costs some nanoseconds.
/// `at::set_num_threads(1)` would also set the number of every thread that starts later. Where
/// LibTorch was built without OpenMP, nothing happens.
class OneThread {
 public:
  OneThread() : before_(at::get_num_threads()) {  // asking also makes LibTorch set its own number,
    if (openmp()) openmp()(1);                    // which it does once a thread, and not later then
    if (mkl()) mkl_before_ = mkl()(1);
  }
  ~OneThread() {
    if (openmp()) openmp()(before_);
    if (mkl()) mkl()(mkl_before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  // Both belong to the calling thread. LibTorch brings its own OpenMP and MKL. The name in small
  // letters would be MKL for Fortran.
  static void (*openmp())(int) {
    static const auto set = reinterpret_cast<void (*)(int)>(symbol("omp_set_num_threads"));
    return set;
  }
  static int (*mkl())(int) {
    static const auto set = reinterpret_cast<int (*)(int)>(symbol("MKL_Set_Num_Threads_Local"));
    return set;
  }
  static void* symbol(const char* name) { return dlsym(RTLD_DEFAULT, name); }

  int before_, mkl_before_ = 0;
};

}  // namespace ikebana::bridge
