#pragma once
#include <algorithm>
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/operators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/observe/matmul_bound.hpp>
#include <ikebana/observe/shortest_call.hpp>
#include <ikebana/posix/processor.hpp>
#include <ikebana/profiling/machine_bounds.hpp>
#include <map>
#include <mutex>
#include <utility>

namespace ikebana::detail {

/// Returns the bytes of each of the two tensors of a copy that no cache can hold.
inline std::int64_t bytes_beyond_caches(c10::Device device) {
  constexpr std::int64_t mega = 1 << 20;
  if (!device.is_cpu()) return 512 * mega;
  return std::clamp(2 * largest_cache(), 64 * mega, 1024 * mega);
}

inline double measured_copy(c10::Device device, std::int64_t bytes) {
  const at::NoGradGuard no_grad;
  const c10::impl::ExcludeDispatchKeyGuard unseen(bridge::AllOperators::key);  // by scopes around
  const at::Tensor from = at::ones({bytes / 4}, at::TensorOptions(device).dtype(at::kFloat));
  const at::Tensor to = at::empty_like(from);
  return 2 * static_cast<double>(bytes) / shortest_call(device, 5, [&] { to.copy_(from); });
}

/// Measures it with less where a training has left less memory.
inline double measured_copy(c10::Device device) {
  constexpr std::int64_t least = 8 << 20;
  for (std::int64_t bytes = bytes_beyond_caches(device);; bytes /= 2) {
    try {
      return measured_copy(device, bytes);
    } catch (const std::exception& error) {
      if (bytes / 2 < least || !bridge::is_out_of_memory(error)) throw;
    }
  }
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE double MachineBounds::flops_per_second(at::ScalarType dtype) const {
  double of_float = 0;
  for (const Matmul& one : matmul) {
    if (one.dtype == dtype) return one.flops_per_second;
    if (one.dtype == at::kFloat) of_float = one.flops_per_second;
  }
  return of_float;
}

IKEBANA_INLINE double copy_bound(c10::Device device) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, int>, double> known;
  device = bridge::with_index(device);
  const std::lock_guard lock(mutex);
  const std::pair key(device.str(), at::get_num_threads());
  if (const auto place = known.find(key); place != known.end()) return place->second;
  return known[key] = detail::measured_copy(device);
}

IKEBANA_INLINE MachineBounds machine_bounds(c10::Device device) {
  device = bridge::with_index(device);
  MachineBounds bounds{.device = device.str()};
  std::vector<at::ScalarType> dtypes{at::kFloat, at::kBFloat16};
  if (!device.is_cpu()) dtypes.push_back(at::kHalf);
  for (const at::ScalarType dtype : dtypes)
    bounds.matmul.push_back({dtype, matmul_bound(dtype, device)});
  bounds.bytes_per_second = copy_bound(device);
  return bounds;
}

}  // namespace ikebana
