#pragma once
#include <chrono>
#include <ikebana/core/rank_generators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/posix/process.hpp>

namespace ikebana::detail {

IKEBANA_INLINE std::uint64_t RankGenerators::position() const {
  std::uint64_t hash = mixed(at::kCPU, 0);
  return at::isAccelerator(device_.type()) ? mixed(device_, hash) : hash;
}

IKEBANA_INLINE void RankGenerators::derive(std::int64_t rank) {
  if (rank == 0) return;
  add(at::kCPU, rank);
  if (at::isAccelerator(device_.type())) add(device_, rank);
}

IKEBANA_INLINE void RankGenerators::finish() noexcept {
  for (const Derived& one : all_) {
    try {
      if (one.former.position_now() == one.derived) one.former.restore();
    } catch (const std::exception&) {  // of a device that cannot be used any more
    }
  }
}

IKEBANA_INLINE std::uint64_t RankGenerators::process() {
  static const std::uint64_t number =
      key(process_id(), std::chrono::steady_clock::now().time_since_epoch().count());
  return number;
}

IKEBANA_INLINE std::uint64_t RankGenerators::mixed(c10::Device device, std::uint64_t hash) {
  const auto at = bridge::GeneratorState(device).position();
  return key(hash, at.sequence, at.index);
}

IKEBANA_INLINE void RankGenerators::add(c10::Device device, std::int64_t rank) {
  Derived& one = all_.emplace_back(Derived{bridge::GeneratorState(device), {}});
  const auto at = one.former.position();
  auto generator = at::globalContext().defaultGenerator(device);
  {
    std::lock_guard others(bridge::generators_mutex());
    std::lock_guard lock(generator.mutex());
    generator.set_current_seed(key(at.sequence, at.index, rank));
  }
  one.derived = one.former.position_now();
}

}  // namespace ikebana::detail
