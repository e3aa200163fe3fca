#pragma once
// Measures the most that a device computes and copies.
#include <ikebana/detail/torch.hpp>
#include <string>
#include <vector>

namespace ikebana {

/// The most that a device computes and copies, as measured on it.
struct MachineBounds {
  /// The most floating-point operations per second of a matrix product, for one dtype.
  struct Matmul {
    at::ScalarType dtype = at::kFloat;  ///< the dtype of the matrices
    double flops_per_second = 0;        ///< as `matmul_bound` measures it
  };
  std::string device = "cpu";       ///< the text of c10::Device::str
  std::vector<Matmul> matmul = {};  ///< for float and bfloat16, and on an accelerator for half
  double bytes_per_second = 0;      ///< as `copy_bound` measures it: bytes read and written

  /// Returns the bound of products for this dtype, and for a dtype that was not measured float's;
  /// 0 if there is no bound at all.
  double flops_per_second(at::ScalarType dtype) const;
};

/// Returns the bytes per second that `device` reads and writes in a copy which is larger than all
/// caches, by the present number of threads: the best of several runs, in which each byte counts
/// twice, once read and once written. The first call for a device and a number of threads measures:
/// on a CPU it takes some tenths of a second and four times the largest cache, at least 128 MB and
/// at most 2 GB, on an accelerator 1 GB. It draws no random numbers, and operator scopes do not see
/// it. Throws what LibTorch throws if there is not so much memory.
double copy_bound(c10::Device device = at::kCPU);

/// Returns the bounds of `device`: products of float and bfloat16, on an accelerator also of half,
/// and copies. The first call takes about a second, since it measures (`matmul_bound`,
/// `copy_bound`). Call it while nothing else computes on the device: bounds that are too low make
/// a training look better than it is.
MachineBounds machine_bounds(c10::Device device = at::kCPU);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/profiling/impl/machine_bounds.ipp>
#endif
