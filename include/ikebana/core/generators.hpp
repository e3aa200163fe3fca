#pragma once
// The random generators of a saved state: the CPU's and that of the trainer's device.
#include <ikebana/detail/message.hpp>
#include <ikebana/state/archive.hpp>

namespace ikebana::detail {

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

/// Saves, checks or loads the generators, so that random numbers continue where they were.
inline void save_generators(Archive& archive, c10::Device device) {
  archive.begin_section("trainer");
  save_generator(archive, "cpu_generator", at::kCPU);
  if (!device.is_cpu()) save_generator(archive, "device_generator", device);
}

}  // namespace ikebana::detail
