#include "device.hpp"

#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>

#include "cuda.hpp"
#include "simulated.hpp"

namespace gpu {

namespace {

constexpr std::size_t simulated_memory = std::size_t{1} << 30;

Kind chosen() {
  const char* name = std::getenv("IKEBANA_TEST_DEVICE");
  const std::string word = name ? name : "cuda";
  if (word == "cuda") return Kind::CUDA;
  if (word == "cpu") return Kind::CPU;
  if (word == "simulated") {
    simulated::install();
    simulated::set_memory_limit(simulated_memory);
    return Kind::Simulated;
  }
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
int devices() { return on_cpu() ? 1 : on_cuda() ? cuda::devices() : simulated::devices; }

struct NoHostSync::Guard {
  std::optional<simulated::SyncGuard> simulated;
  Guard() {
    if (on_cuda()) cuda::forbid_host_sync(true);
    if (on_simulated()) simulated.emplace();
  }
  ~Guard() {
    if (on_cuda()) cuda::forbid_host_sync(false);
  }
};
NoHostSync::NoHostSync() : guard_(std::make_unique<Guard>()) {}
NoHostSync::~NoHostSync() = default;

Allocated allocated(int index) {
  if (on_cuda()) return {cuda::allocated_bytes(index), cuda::peak_bytes(index)};
  const auto bytes = at::getDeviceAllocator(device().type())
                         ->getDeviceStats(static_cast<c10::DeviceIndex>(index))
                         .allocated_bytes[0];
  return {bytes.current, bytes.peak};
}
void limit_memory(std::int64_t bytes) {
  if (!on_simulated()) return;
  simulated::set_memory_limit(bytes > 0 ? static_cast<std::size_t>(bytes) : simulated_memory);
}
void set_false_queries(int count) {
  if (on_simulated()) simulated::set_false_queries(count);
}
void synchronize() {
  if (!on_cpu()) c10::impl::VirtualGuardImpl(device().type()).synchronizeDevice(0);
}
std::size_t copies_in_flight() { return on_simulated() ? simulated::copies_in_flight() : 0; }
bool is_usable() { return !on_cuda() || cuda::is_usable(); }
std::vector<std::string> take_errors() {
  return on_simulated() ? simulated::take_errors() : std::vector<std::string>();
}

}  // namespace gpu
