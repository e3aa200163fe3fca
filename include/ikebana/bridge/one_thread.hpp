#pragma once
// Restricts LibTorch's operators to the calling thread.
#include <ikebana/detail/torch.hpp>
#include <ikebana/posix/library.hpp>

namespace ikebana::bridge {

/// RAII: operators that this thread calls run on this thread alone. Costs some nanoseconds. Unlike
/// `at::set_num_threads(1)`, it does not change threads that start later. Does nothing if
/// LibTorch was built without OpenMP.
class OneThread {
 public:
  // get_num_threads() also makes LibTorch set the thread's initial number, which it does once per
  // thread, so that it does not do so later and overwrite the 1.
  OneThread() : before_(at::get_num_threads()) {
    if (openmp()) openmp()(1);
    if (mkl()) mkl_before_ = mkl()(1);
  }
  ~OneThread() {
    if (openmp()) openmp()(before_);
    if (mkl()) mkl()(mkl_before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  // Both settings are per thread. LibTorch ships its own OpenMP and MKL. MKL's lower-case names are
  // its Fortran interface.
  static void (*openmp())(int) {
    static const auto set =
        reinterpret_cast<void (*)(int)>(ikebana::detail::find_symbol("omp_set_num_threads"));
    return set;
  }
  static int (*mkl())(int) {
    static const auto set =
        reinterpret_cast<int (*)(int)>(ikebana::detail::find_symbol("MKL_Set_Num_Threads_Local"));
    return set;
  }

  int before_, mkl_before_ = 0;
};

}  // namespace ikebana::bridge
