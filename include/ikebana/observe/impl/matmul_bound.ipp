#pragma once
#include <algorithm>
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/matmul_bound.hpp>
#include <ikebana/observe/shortest_call.hpp>
#include <ikebana/posix/processor.hpp>
#include <map>
#include <mutex>
#include <tuple>

namespace ikebana::detail {

inline double measured_matmul(at::ScalarType dtype, c10::Device device) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const c10::impl::ExcludeDispatchKeyGuard unseen(bridge::AllOperators::key);  // by scopes around
  auto seconds_of = [&](std::int64_t n) {
    const at::Tensor a = whole_numbers({n, n}, dtype, device), b = a.clone();
    at::Tensor result = at::empty_like(a);
    return shortest_call(device, 5, [&] { at::mm_out(result, a, b); });
  };
  std::int64_t n = device.is_cpu() ? 1024 : 256;
  double seconds = seconds_of(n);
  // An accelerator needs large matrices, if its memory holds them; one that is slow is not kept
  // busy for minutes.
  try {
    for (; !device.is_cpu() && n < 4096 && seconds < 0.01; n *= 2) seconds = seconds_of(2 * n);
  } catch (const std::exception& error) {
    if (!bridge::is_out_of_memory(error)) throw;
  }
  const auto size = static_cast<double>(n);
  return 2 * size * size * size / seconds;
}

/// Returns true if a CPU has no instructions for products of this dtype, which then take seconds.
inline bool is_emulated(at::ScalarType dtype, c10::Device device) {
  if (!device.is_cpu() || (dtype != at::kBFloat16 && dtype != at::kHalf)) return false;
  return !has_half_instructions(dtype == at::kHalf ? HalfKind::FP16 : HalfKind::BF16);
}

/// Returns a bound that was measured before, or measures it.
inline double kept_matmul_bound(at::ScalarType dtype, c10::Device device) {
  static std::mutex mutex;
  static std::map<std::tuple<at::ScalarType, std::string, int>, double> known;
  const std::lock_guard lock(mutex);
  const std::tuple key(dtype, device.str(), at::get_num_threads());
  if (const auto place = known.find(key); place != known.end()) return place->second;
  return known[key] = measured_matmul(dtype, device);
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE double matmul_bound(at::ScalarType dtype, c10::Device device) {
  device = bridge::with_index(device);
  if (dtype != at::kDouble && dtype != at::kFloat && dtype != at::kHalf) dtype = at::kBFloat16;
  if (detail::is_emulated(dtype, device)) dtype = at::kFloat;
  const double own = detail::kept_matmul_bound(dtype, device);
  if (dtype == at::kDouble || dtype == at::kFloat) return own;
  return std::max(own, detail::kept_matmul_bound(at::kFloat, device));
}

}  // namespace ikebana
