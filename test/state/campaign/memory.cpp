// Counts allocations by replacing operator new, and by a counter of LibTorch's allocator.
#include "state/campaign/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <ikebana/bridge/memory_counter.hpp>
#include <new>

namespace campaign {
namespace {

struct Counters {
  bool on = false;
  std::int64_t largest = 0, now = 0, peak = 0, tensors = 0;
};
thread_local Counters counters;

constexpr std::size_t header = alignof(std::max_align_t);  // holds the size

ikebana::bridge::MemoryCounter& tensors() {
  static ikebana::bridge::MemoryCounter counter(at::kCPU);
  return counter;
}

void* allocate(std::size_t n) noexcept {
  if (counters.on) {
    counters.largest = std::max(counters.largest, static_cast<std::int64_t>(n));
    counters.now += static_cast<std::int64_t>(n);
    counters.peak = std::max(counters.peak, counters.now);
  }
  auto* block = n > SIZE_MAX - header ? nullptr : static_cast<char*>(std::malloc(n + header));
  if (!block) return nullptr;
  *reinterpret_cast<std::size_t*>(block) = n;
  return block + header;
}
void release(void* bytes) noexcept {
  if (!bytes) return;
  auto* block = static_cast<char*>(bytes) - header;
  if (counters.on)
    counters.now -= static_cast<std::int64_t>(*reinterpret_cast<std::size_t*>(block));
  std::free(block);
}

}  // namespace

MemoryWatch::MemoryWatch() {
  tensors().reset_peak();
  counters = {true, 0, 0, 0, tensors().now()};
}
MemoryWatch::~MemoryWatch() { counters.on = false; }
std::int64_t MemoryWatch::largest() const {
  return std::max(counters.largest, tensors().peak() - counters.tensors);
}
std::int64_t MemoryWatch::peak() const {
  return counters.peak + tensors().peak() - counters.tensors;
}

}  // namespace campaign

void* operator new(std::size_t n) {
  if (void* bytes = campaign::allocate(n)) return bytes;
  throw std::bad_alloc();
}
void* operator new(std::size_t n, const std::nothrow_t&) noexcept { return campaign::allocate(n); }
void operator delete(void* bytes) noexcept { campaign::release(bytes); }
void operator delete(void* bytes, std::size_t) noexcept { campaign::release(bytes); }
void operator delete(void* bytes, const std::nothrow_t&) noexcept { campaign::release(bytes); }
