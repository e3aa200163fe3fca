#pragma once
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/detail/away.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/shared_apart.hpp>
#include <mutex>
#include <unordered_map>

namespace ikebana::bridge {

IKEBANA_INLINE MemorySource& memory_source(c10::Device device) {
  if (sources_of_thread != nullptr) return sources_of_thread->of(device);
  if (device.is_cpu()) return CountingAllocatorV2::install();
  static std::mutex mutex;
  static auto& sources = *new std::unordered_map<c10::Device, std::unique_ptr<MemorySource>>;
  std::lock_guard lock(mutex);
  auto& source = sources[device];
  if (!source) source = make_device_memory(device.type(), device.index());
  if (!source)
    throw Error("MemoryCounter: this LibTorch does not count the memory of " + device.str() +
                ". Count on the CPU, or use LibTorch 2.9 or newer; LibTorch 2.8 also counts where "
                "the compiler finds cuda_runtime_api.h.");
  return *source;
}

IKEBANA_INLINE MemoryCounter::MemoryCounter(MemorySource& source)
    : attached_(ikebana::detail::make_shared_apart<AttachedTracker>(source)) {}

IKEBANA_INLINE bool is_out_of_memory(const std::exception& error) {
  return dynamic_cast<const OutOfMemory*>(&error) != nullptr ||
         ikebana::detail::is_out_of_memory(ikebana::detail::text_of_libtorch(error));
}

IKEBANA_INLINE bool is_present_out_of_memory() {
  try {
    throw;
  } catch (const std::exception& error) {
    return is_out_of_memory(error);
  } catch (...) {
    return false;
  }
}

IKEBANA_INLINE bool counted(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || ikebana::detail::is_away(tensor) ||
      tensor.storage().nbytes() == 0)
    return false;
  if (!tensor.device().is_cpu() || sources_of_thread != nullptr) return !tensor.is_meta();
  const auto* present = CountingAllocatorV2::installed();
  return present != nullptr && tensor.storage().data_ptr().get_deleter() == present->raw_deleter();
}

IKEBANA_INLINE std::int64_t uncounted_bytes(const at::Tensor& t) {
  if (ikebana::detail::is_away(t)) return 0;  // a maker's tensor is made later, and counted then
  return t.is_cpu() && !counted(t) ? static_cast<std::int64_t>(t.nbytes()) : 0;
}

}  // namespace ikebana::bridge
