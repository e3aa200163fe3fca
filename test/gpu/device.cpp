#include "device.hpp"

#include <cstdlib>
#include <stdexcept>

#include "cuda.hpp"

namespace gpu {

namespace {

Kind chosen() {
  const char* name = std::getenv("IKEBANA_TEST_DEVICE");
  const std::string word = name ? name : "cuda";
  if (word == "cuda") return Kind::CUDA;
  if (word == "cpu") return Kind::CPU;
  throw std::runtime_error("IKEBANA_TEST_DEVICE is `" + word +
                           "`; it must be cuda, cpu or simulated");
}

}  // namespace

Kind kind() {
  static const Kind kind = chosen();
  return kind;
}
const char* name() { return on_cuda() ? "cuda" : on_cpu() ? "cpu" : "simulated"; }

c10::Device device(int index) {
  if (on_cpu()) return at::kCPU;
  return {on_cuda() ? at::kCUDA : at::kPrivateUse1, static_cast<c10::DeviceIndex>(index)};
}
int devices() { return on_cpu() ? 1 : cuda::devices(); }

NoHostSync::NoHostSync() {
  if (on_cuda()) cuda::forbid_host_sync(true);
}
NoHostSync::~NoHostSync() {
  if (on_cuda()) cuda::forbid_host_sync(false);
}

Allocated allocated(int index) {
  return on_cuda() ? Allocated{cuda::allocated_bytes(index), cuda::peak_bytes(index)} : Allocated{};
}
void reset_peak(int index) {
  if (on_cuda()) cuda::reset_peak(index);
}
void synchronize() {
  if (on_cuda()) cuda::synchronize();
}
bool is_usable() { return !on_cuda() || cuda::is_usable(); }

}  // namespace gpu
