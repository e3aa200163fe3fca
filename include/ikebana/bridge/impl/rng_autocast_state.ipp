#pragma once
#include <ikebana/bridge/device.hpp>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/torch_bodies.hpp>

namespace ikebana::bridge {

IKEBANA_INLINE RngSet RngPositions::differ(const RngPositions& other) const {
  return {cpu != other.cpu, device != other.device};
}

IKEBANA_INLINE AutocastState AutocastState::capture(c10::DeviceType type) {
  return {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)};
}

IKEBANA_INLINE bool AutocastState::is_available(c10::DeviceType type) {
  return at::autocast::is_autocast_available(type);
}

IKEBANA_INLINE void AutocastState::restore() const {
  at::autocast::set_autocast_enabled(device_type, enabled);
  at::autocast::set_autocast_dtype(device_type, dtype);
}

IKEBANA_INLINE AutocastNesting::AutocastNesting() { at::autocast::increment_nesting(); }

IKEBANA_INLINE AutocastNesting::~AutocastNesting() {
  if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
}

IKEBANA_INLINE NoWeightCacheScope::NoWeightCacheScope()
    : before_(at::autocast::is_autocast_cache_enabled()) {
  at::autocast::set_autocast_cache_enabled(false);
}

IKEBANA_INLINE NoWeightCacheScope::~NoWeightCacheScope() {
  at::autocast::set_autocast_cache_enabled(before_);
}

IKEBANA_INLINE AutocastScope::AutocastScope(c10::DeviceType device_type, at::ScalarType dtype)
    : before_(AutocastState::capture(device_type)) {
  const bool enabled = dtype != at::ScalarType::Undefined;
  AutocastState{device_type, enabled, enabled ? dtype : before_.dtype}.restore();
}

IKEBANA_INLINE RngAutocastState RngAutocastState::capture(c10::Device device) {
  return RngAutocastState(with_index(device), {});
}

IKEBANA_INLINE RngPositions RngAutocastState::positions() const {
  return positions([](const GeneratorState& generator) { return generator.position(); });
}

IKEBANA_INLINE RngPositions RngAutocastState::positions_now() const {
  return positions([](const GeneratorState& generator) { return generator.position_now(); });
}

IKEBANA_INLINE RngAutocastState::RngAutocastState(c10::Device device, RngSet generators)
    : device_(device), weight_cache_(at::autocast::is_autocast_cache_enabled()) {
  if (generators.cpu) cpu_generator_.emplace(c10::Device(c10::kCPU));
  if (device.is_cpu()) return;
  if (generators.device && at::isAccelerator(device.type())) device_generator_.emplace(device);
  if (at::autocast::is_autocast_available(device.type()))
    device_autocast_ = AutocastState::capture(device.type());
}

IKEBANA_INLINE void RngAutocastState::restore(bool weight_cache, RngSet generators) const {
  if (cpu_generator_ && generators.cpu) cpu_generator_->restore();
  if (device_generator_ && generators.device) device_generator_->restore();
  cpu_autocast_.restore();
  if (device_autocast_) device_autocast_->restore();
  at::autocast::set_autocast_cache_enabled(weight_cache);
}

IKEBANA_INLINE RngAutocastState::Replay::Replay(const RngAutocastState& state, bool weight_cache,
                                                RngSet generators)
    : generators_(generators), before_(state.device_, generators) {
  try {
    state.restore(state.weight_cache_ && weight_cache, generators_);
  } catch (...) {
    before_.restore(before_.weight_cache_, generators_);
    throw;
  }
}

}  // namespace ikebana::bridge
