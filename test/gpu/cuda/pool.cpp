// Tests DeviceMemPool over CUDA's caching allocator.
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <ikebana/memory/device_pool.hpp>
#include <memory>

#include "../cuda.hpp"

namespace gpu::cuda {

using Pool = ikebana::DeviceMemPool<c10::cuda::CUDACachingAllocator::CUDAAllocator>;

std::pair<std::int64_t, std::int64_t> bytes_of_pool(int index) {
  const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(index));
  const c10::cuda::CUDAGuard guard(device);
  auto& allocator = *c10::cuda::CUDACachingAllocator::get();
  auto pool = std::make_unique<Pool>(allocator, device);
  auto held = [&, id = pool->id()] {
    std::int64_t bytes = 0;
    for (const auto& segment : allocator.snapshot({0, 0}, false).segments)
      if (segment.owner_private_pool_id == id)
        bytes += static_cast<std::int64_t>(segment.total_size);
    return bytes;
  };
  c10::DataPtr block;
  {
    const ikebana::UseDeviceMemPool use(*pool, device);
    block = allocator.allocate(1 << 20);
  }
  const std::int64_t while_used = held();
  block.clear();
  pool.reset();
  return {while_used, held()};
}

}  // namespace gpu::cuda
