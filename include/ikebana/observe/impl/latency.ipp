#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/observe/latency.hpp>

namespace ikebana::detail {

IKEBANA_INLINE TimeStatistics latency_of(c10::function_ref<void()> call,
                                         const LatencyOptions& options) {
  if (options.iterations < 1 || options.warmup < 0)
    throw BadValue("measure_latency: warmup is " + std::to_string(options.warmup) +
                   " and iterations is " + std::to_string(options.iterations) +
                   ". Write 0 or more, and 1 or more.");
  using Clock = std::chrono::steady_clock;
  const c10::Device device = bridge::with_index(options.device.value_or(at::kCPU));
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(options.iterations));
  for (std::int64_t i = -options.warmup; i < options.iterations; ++i) {
    const auto begin = Clock::now();
    call();
    bridge::synchronize(device);
    if (i >= 0) seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return time_statistics(seconds);
}

}  // namespace ikebana::detail
