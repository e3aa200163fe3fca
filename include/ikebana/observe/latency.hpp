#pragma once
// Measures how long a call takes.
#include <chrono>
#include <ikebana/bridge/device.hpp>
#include <ikebana/observe/time_statistics.hpp>
#include <optional>
#include <vector>

namespace ikebana {

/// The calls that `measure_latency` makes.
struct LatencyOptions {
  std::int64_t warmup = 10;       ///< calls before the ones that are measured
  std::int64_t iterations = 100;  ///< calls that are measured, one by one
  /// The device on which the call computes: after each call `measure_latency` waits for it. By
  /// default a trainer's own device, and for any other call the CPU, which is never waited for.
  std::optional<c10::Device> device = {};
};

namespace detail {

/// Measures a call whose type is erased. Throws BadValue for options out of range.
TimeStatistics latency_of(c10::function_ref<void()> call, const LatencyOptions& options);

}  // namespace detail

/// Returns how long one call of `f()` takes, from its beginning until its device has computed it.
/// What `f` returns is destroyed within the time. Other trainers and threads of the process count
/// as long as they run. Throws what `f` throws, and BadValue for options out of range.
/// Cost: `warmup + iterations` calls.
template <class F>
  requires std::invocable<F&>
TimeStatistics measure_latency(F&& f, const LatencyOptions& options = {}) {
  return detail::latency_of([&] { (void)f(); }, options);
}

/// Returns how long `trainer.predict(given)` takes, on the trainer's device.
template <class Trainer, class Given>
  requires requires(Trainer& trainer, const Given& given) {
    trainer.predict(given);
    trainer.device();
  }
TimeStatistics measure_latency(Trainer& trainer, const Given& given, LatencyOptions options = {}) {
  if (!options.device) options.device = trainer.device();
  return detail::latency_of([&] { (void)trainer.predict(given); }, options);
}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/latency.ipp>
#endif
