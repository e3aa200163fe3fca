#pragma once
// Measures what a machine computes at most: numbers to compute with, and the shortest of some
// calls.
#include <algorithm>
#include <chrono>
#include <ikebana/bridge/device.hpp>
#include <limits>

namespace ikebana::detail {

/// Returns whole numbers from -3 to 3, whose products have exact sums in every dtype.
at::Tensor whole_numbers(at::IntArrayRef sizes, at::ScalarType dtype, c10::Device device);

/// Returns the shortest of some calls of `f`, in seconds, until the device has computed it. A call
/// before them is not measured.
template <class F>
double shortest_call(c10::Device device, int calls, F&& f) {
  using Clock = std::chrono::steady_clock;
  double best = std::numeric_limits<double>::max();
  for (int i = 0; i <= calls; ++i) {
    bridge::synchronize(device);
    const auto begin = Clock::now();
    f();
    bridge::synchronize(device);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (i > 0) best = std::min(best, seconds);
  }
  return best;
}

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/observe/impl/shortest_call.ipp>
#endif
