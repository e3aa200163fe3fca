// Python loads this to read the bytes in use of LibTorch's CPU allocator, now and at the peak.
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
