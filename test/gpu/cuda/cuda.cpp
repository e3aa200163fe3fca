#include "../cuda.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

namespace gpu::cuda {

namespace {

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}
auto statistics(int index) {
  const auto device = static_cast<c10::DeviceIndex>(index);
  return c10::cuda::CUDACachingAllocator::get()->getDeviceStats(device).allocated_bytes[0];
}

}  // namespace

int devices() { return c10::cuda::device_count(); }

std::string description(int index) {
  cudaDeviceProp properties{};
  int driver = 0, runtime = 0;
  if (cudaGetDeviceProperties(&properties, index) != cudaSuccess ||
      cudaDriverGetVersion(&driver) != cudaSuccess ||
      cudaRuntimeGetVersion(&runtime) != cudaSuccess)
    return "a device whose properties cannot be read";
  return std::string(properties.name) + ", compute capability " + std::to_string(properties.major) +
         "." + std::to_string(properties.minor) + ", driver " + version(driver) + ", runtime " +
         version(runtime);
}

void forbid_host_sync(bool forbid) {
  using Mode = c10::cuda::SyncDebugMode;
  c10::cuda::warning_state().set_sync_debug_mode(forbid ? Mode::L_ERROR : Mode::L_DISABLED);
}

std::int64_t allocated_bytes(int index) { return statistics(index).current; }
std::int64_t peak_bytes(int index) { return statistics(index).peak; }
bool is_usable() { return cudaDeviceSynchronize() == cudaSuccess; }

}  // namespace gpu::cuda
