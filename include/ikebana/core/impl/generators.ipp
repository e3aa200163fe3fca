#pragma once
#include <ikebana/core/generators.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/message.hpp>
#include <ikebana/error.hpp>

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
