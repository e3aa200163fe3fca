#pragma once
#include <chrono>
#include <ikebana/core/generators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/detail/splitmix.hpp>
#include <ikebana/error.hpp>
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
    } catch (const std::exception&) {  // the error of a device that cannot be used any more
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

inline void save_generator(Archive& archive, const char* name, c10::Device device) {
  auto generator = at::globalContext().defaultGenerator(device);
  std::lock_guard lock(generator.mutex());
  at::Tensor state = generator.get_state();
  archive.tensor(name, state);
  if (archive.loading()) return generator.set_state(state);
  const at::Tensor* given = archive.find_like(name, state);
  if (!archive.checking() || !given) return;
  try {
    generator.clone().set_state(given->cpu());
  } catch (const c10::Error& error) {
    archive.add_mismatch(name, "holds no generator's state (" + message_of(error) + ")");
  }
}

IKEBANA_INLINE void save_generators(Archive& archive, c10::Device device) {
  constexpr const char* of_device = "device_generator";
  archive.begin_section("trainer");
  save_generator(archive, "cpu_generator", at::kCPU);
  if (device.is_cpu()) return archive.ignore(of_device);
  if (archive.saving() || archive.has(of_device)) return save_generator(archive, of_device, device);
  if (archive.loading())
    TORCH_WARN("The state was saved by a trainer on the CPU: the random generator of ",
               device.str(), " stays as it is.");
}

}  // namespace ikebana::detail
