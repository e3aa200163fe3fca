#pragma once
// Calls of CUDA itself that the tests need. Only cuda/cuda.cpp includes CUDA's headers, so that no
// other file needs them.
#include <cstdint>
#include <string>
#include <utility>

namespace gpu::cuda {

/// Returns 0 if there is no device, no driver, or no LibTorch with CUDA.
int devices();
/// Returns `NVIDIA H100 80GB HBM3, compute capability 9.0, driver 13.0, runtime 13.0`.
std::string description(int index);
/// Makes everything that lets the host wait for a device an error, or allows it again.
void forbid_host_sync(bool forbid);
std::int64_t allocated_bytes(int index);
std::int64_t peak_bytes(int index);
/// Bytes that a DeviceMemPool holds: while a tensor of it exists, and after it was destroyed.
std::pair<std::int64_t, std::int64_t> bytes_of_pool(int index);
/// Returns false after an error that outlasts the call that caused it.
bool is_usable();

}  // namespace gpu::cuda
