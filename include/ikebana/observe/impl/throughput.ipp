#pragma once
#include <algorithm>
#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/short_number.hpp>
#include <ikebana/observe/matmul_bound.hpp>
#include <ikebana/observe/throughput.hpp>

namespace ikebana {

IKEBANA_INLINE void Mechanism<Observe<Throughput>>::attach(c10::Device device, const UnitTable&) {
  if (values.window < 1)
    throw BadValue("Observe<Throughput>: window is " + std::to_string(values.window) +
                   ". Write over how many steps the time is averaged, 1 or more.");
  if (values.bound && !(*values.bound > 0))
    throw BadValue("Observe<Throughput>: bound is " + std::to_string(*values.bound) +
                   " operations per second. Write more than 0, or leave it out.");
  device_ = bridge::with_index(device);
  ends_.reset(static_cast<std::size_t>(values.window));
}

IKEBANA_INLINE double Mechanism<Observe<Throughput>>::waited_before(Clock::time_point begin) {
  const double waited = waits_.take();
  if (ends_.size() == 0) return 0;
  return std::min(waited, std::chrono::duration<double>(begin - ends_.latest()).count());
}

IKEBANA_INLINE void Mechanism<Observe<Throughput>>::add(Report& report,
                                                        const detail::StepFlops& flops,
                                                        Clock::time_point begin, double waited) {
  const auto end = Clock::now();
  double seconds = waited + std::chrono::duration<double>(end - begin).count();
  if (!device_.is_cpu() && ends_.size() > 0)
    seconds = std::chrono::duration<double>(end - ends_.oldest()).count() /
              static_cast<double>(ends_.size());
  ends_.add(end);
  report.throughput.emplace();
  StepThroughput& step = *report.throughput;
  if (!report.value.parts.empty()) step.items = report.value.parts[0].count;
  step.seconds = seconds;
  step.flops = static_cast<double>(flops.flops);
  step.recomputed = static_cast<double>(flops.recomputed);
  step.bound = flops.bound;
}

IKEBANA_INLINE double Mechanism<Observe<Throughput>>::bound_of(
    const detail::StepFlops& flops) const {
  if (values.bound) return *values.bound;
  try {
    return matmul_bound(flops.dtype, device_);
  } catch (const std::exception&) {  // no memory for the matrices: the share is not known
    return detail::not_given;
  }
}

IKEBANA_INLINE std::string Mechanism<Observe<Throughput>>::describe() const {
  const std::string bound =
      values.bound ? detail::short_number(*values.bound) + "FLOP/s" : std::string("measured");
  return "bound=" + bound + ", window=" + std::to_string(values.window);
}

}  // namespace ikebana
