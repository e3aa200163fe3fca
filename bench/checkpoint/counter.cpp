// Opened by Python: bytes that LibTorch's CPU allocator has given out since, now and at the most.
#include <ikebana/bridge/memory.hpp>

namespace {
ikebana::bridge::MemoryCounter& counter() {
  static ikebana::bridge::MemoryCounter one(c10::kCPU);
  return one;
}
}  // namespace

extern "C" std::int64_t bytes_now() { return counter().now(); }
extern "C" std::int64_t bytes_peak() { return counter().peak(); }
extern "C" void reset_peak() { counter().reset_peak(); }
