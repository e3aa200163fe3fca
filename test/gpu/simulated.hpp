#pragma once
// Simulates an accelerator with two devices in host memory, for tests on machines without a GPU.
// Operators give the CPU's bits. Errors that CUDA would punish are caught: host code that reads
// device memory crashes, asynchronous copies are late, and mistakes between streams are reported.
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace simulated {

inline constexpr int devices = 2;

/// Registers the accelerator with LibTorch as `simulated`, once. Call it before the first backward
/// pass of the process, because autograd starts its threads for the devices it finds then.
void install();

inline c10::Device device(int index = 0) {
  return {c10::kPrivateUse1, static_cast<c10::DeviceIndex>(index)};
}

/// Returns what would have been undefined behaviour on CUDA, one sentence each: memory used by two
/// streams without an event between them, and memory freed while a stream uses it that
/// `record_stream` did not name. `take_errors` forgets them.
std::vector<std::string> errors();
std::vector<std::string> take_errors();

/// Sets how often an event says "not yet" when asked, before it asks the device. The default is 1.
void set_false_queries(int count);

/// Makes allocations beyond this many bytes on one device throw c10::OutOfMemoryError. With 0 there
/// is no limit. Returns the limit before.
std::size_t set_memory_limit(std::size_t bytes);

/// Counts how often the host has waited for a device, in all threads.
std::int64_t synchronisations();

/// Copies that were asked for and not yet done, on all streams.
std::size_t copies_in_flight();

/// Returns the most bytes that graphs have used so far, in all pools.
std::size_t graph_memory();

/// RAII: the operators and copies that are launched on the devices while it exists, by name, in
/// order, from all threads: what CUDA starts as a kernel, a copy or a memset. Views and new memory
/// launch nothing. One may exist at a time.
class Launches {
 public:
  Launches();
  ~Launches();
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;
  /// Returns the names so far.
  std::vector<std::string> names() const;
};

/// RAII: while one exists, operations at which CUDA's SyncDebugMode::L_ERROR throws do so here, in
/// every thread: reading a number, blocking copies between host and device, shapes that depend on
/// values, and waiting for a stream; not waiting for an event or a device.
class SyncGuard {
 public:
  SyncGuard();
  ~SyncGuard();
  SyncGuard(const SyncGuard&) = delete;
  SyncGuard& operator=(const SyncGuard&) = delete;
};

}  // namespace simulated
