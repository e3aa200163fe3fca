#pragma once
// Defines the random numbers of a simulated device, which come from a CPU generator that belongs to
// the device.
#include <ATen/core/Generator.h>

#include <optional>

namespace simulated {

class Generator final : public c10::GeneratorImpl {
 public:
  Generator(c10::DeviceIndex index, at::Generator engine);
  static c10::DeviceType device_type() { return c10::kPrivateUse1; }
  void set_current_seed(std::uint64_t seed) override;
  std::uint64_t current_seed() const override;
  std::uint64_t seed() override;
  void set_offset(std::uint64_t offset) override;
  std::uint64_t get_offset() const override;
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  const at::Generator& engine() const { return engine_; }

 private:
  Generator* clone_impl() const override;
  at::Generator engine_;
};

at::Generator& default_generator(int device);

/// The CPU generator that draws for `generator`, which must be of the device, or without one for
/// the device's default generator.
at::Generator engine_of(const std::optional<at::Generator>& generator, int device);

}  // namespace simulated
