#pragma once
#include <ikebana/detail/form.hpp>
#include <ikebana/estimate/summary.hpp>
#include <map>

namespace ikebana::detail {

IKEBANA_INLINE void MemoryMarks::mark(Phase phase, std::size_t unit) {
  intervals.push_back({phase, unit, counter.peak() - before});
  counter.reset_peak();
}

IKEBANA_INLINE std::vector<std::int64_t> gradient_bytes(const Masters& masters,
                                                        const StepGradients& gradients,
                                                        std::size_t units) {
  std::vector<std::int64_t> bytes(units);
  StorageBytes counted;
  std::map<const c10::StorageImpl*, std::int64_t> left;
  for (std::size_t k = 0; k < gradients.values.size(); ++k) {
    const at::Tensor t = elements_of(gradients.values[k]);
    std::int64_t& of_storage = left[t.storage().unsafeGetStorageImpl()];
    of_storage += counted.add(t);
    const std::int64_t own = std::min(of_storage, static_cast<std::int64_t>(t.nbytes()));
    bytes[masters.slices[gradients.indices[k]].unit] += own;
    of_storage -= own;
  }
  for (const auto& [storage, rest] : left) bytes[0] += rest;
  return bytes;
}

}  // namespace ikebana::detail
