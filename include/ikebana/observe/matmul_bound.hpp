#pragma once
// Measures how fast this machine multiplies matrices.
#include <ikebana/detail/torch.hpp>

namespace ikebana {

/// Returns the floating-point operations per second of a large matrix product of this dtype on
/// `device`, by the present number of threads: the best of several runs, two operations for each
/// multiplication and addition. For a dtype for which the processor has no instructions it is that
/// of FP32, since `Precision` then multiplies in FP32; for FP8 it is that of BF16. The first call
/// for a dtype, a device and a number of threads measures, which takes some tenths of a second and
/// 20 MB on a CPU; it draws no random numbers. Source: the roofline model (Williams, Waterman,
/// Patterson 2009).
double matmul_bound(at::ScalarType dtype = at::kFloat, c10::Device device = at::kCPU);

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/matmul_bound.ipp>
#endif
