#pragma once
// Defines the device that the cases of this folder run on, and what a case needs to know about it.
// The environment variable IKEBANA_TEST_DEVICE chooses cuda, cpu, or simulated (simulated.hpp). By
// default it is cuda.
#include "test.hpp"

#include <memory>
#include <string>
#include <vector>

namespace gpu {

enum class Kind { CUDA, CPU, Simulated };

Kind kind();
inline bool on_cuda() { return kind() == Kind::CUDA; }
inline bool on_cpu() { return kind() == Kind::CPU; }
inline bool on_simulated() { return kind() == Kind::Simulated; }
/// Returns the name as the environment variable has it.
const char* name();

/// Returns the device of an index. The CPU has only one.
c10::Device device(int index = 0);
/// Returns how many devices of this kind there are.
int devices();

/// Ends the case as one that was not run, with the reason; the totals at the end count it.
#define NOT_RUN_UNLESS(condition, why) \
  if (!(condition)) return gpu::not_run(why)
void not_run(const std::string& why);

/// RAII: on a device, whatever makes the host wait for it throws c10::Error. Host and device agree
/// on a CPU, so there it does nothing.
class NoHostSync {
 public:
  NoHostSync();
  ~NoHostSync();
  NoHostSync(const NoHostSync&) = delete;
  NoHostSync& operator=(const NoHostSync&) = delete;

 private:
  struct Guard;
  std::unique_ptr<Guard> guard_;
};

/// Bytes that the device's allocator has handed out, now and at the peak, by its own statistics.
struct Allocated {
  std::int64_t now = 0, peak = 0;
};
Allocated allocated(int index = 0);

/// Makes allocations beyond so many bytes in use fail. With 0, this holds beyond the device's
/// memory. Only the simulated device can be limited.
void limit_memory(std::int64_t bytes);

/// Sets how often an event of the simulated device answers "not yet"; once by default.
void set_false_queries(int count);

/// Waits until the device has finished all work.
void synchronize();
/// Counts copies that were asked for and not yet done; 0 if the device does not tell.
std::size_t copies_in_flight();
/// Returns false once an error has made the device unusable for the rest of the process.
bool is_usable();
/// Returns mistakes since the last call that changed no result, one sentence each: two streams that
/// use the same memory without an event, say. Only the simulated device can tell.
std::vector<std::string> take_errors();

}  // namespace gpu
