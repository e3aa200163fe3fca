#pragma once
// The global state that a computation depends on besides its arguments: the states of the random
// number generators, and autocast. Captured in forward, restored for a recompute.

#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/torch.hpp>
#include <mutex>
#include <optional>

namespace ikebana::bridge {

/// A default random number generator and its state at one moment.
class GeneratorState {
 public:
  explicit GeneratorState(c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }

  void restore() const {
    auto generator = generator_;
    std::lock_guard lock(generator.mutex());
    generator.set_state(state_);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

/// Autocast of one device type on this thread: whether it is enabled, and its dtype.
struct AutocastState {
  c10::DeviceType device_type;
  bool enabled;
  at::ScalarType dtype;

  static AutocastState capture(c10::DeviceType type) {
    return {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)};
  }

  void restore() const {
    at::autocast::set_autocast_enabled(device_type, enabled);
    at::autocast::set_autocast_dtype(device_type, dtype);
  }
};

/// RAII: one more level of nested autocast. Leaving the outermost level clears the cache of cast
/// weights.
class AutocastNesting {
 public:
  AutocastNesting() { at::autocast::increment_nesting(); }
  ~AutocastNesting() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }
  AutocastNesting(const AutocastNesting&) = delete;
  AutocastNesting& operator=(const AutocastNesting&) = delete;
};

/// RAII: autocast on this thread does not cache cast weights. Costs nothing measurable.
class NoWeightCacheScope {
 public:
  NoWeightCacheScope() { at::autocast::set_autocast_cache_enabled(false); }
  ~NoWeightCacheScope() { at::autocast::set_autocast_cache_enabled(before_); }
  NoWeightCacheScope(const NoWeightCacheScope&) = delete;
  NoWeightCacheScope& operator=(const NoWeightCacheScope&) = delete;

 private:
  bool before_ = at::autocast::is_autocast_cache_enabled();
};

/// RAII: autocast to `dtype` on `device_type`, or off if dtype is Undefined; restores the previous
/// state. Costs well under a microsecond. Throws c10::Error for a device type without autocast.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device_type, at::ScalarType dtype)
      : before_(AutocastState::capture(device_type)) {
    const bool enabled = dtype != at::ScalarType::Undefined;
    AutocastState{device_type, enabled, enabled ? dtype : before_.dtype}.restore();
  }
  ~AutocastScope() { before_.restore(); }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState before_;
  AutocastNesting nesting_;
};

/// The states of the CPU's generator and of `device`'s, and autocast of both: a recompute must
/// start from the same ones as its forward. Costs 5 kB and about a microsecond for the CPU; for an
/// accelerator 16 bytes more, without synchronization.
class RngAutocastState {
 public:
  /// For a device without a generator or autocast of its own (meta), only the CPU's are captured.
  static RngAutocastState capture(c10::Device device) {
    return RngAutocastState(with_index(device));
  }

  class Replay;

 private:
  explicit RngAutocastState(c10::Device device) : device_(device) {
    if (device.is_cpu()) return;
    if (at::isAccelerator(device.type())) device_generator_.emplace(device);
    if (at::autocast::is_autocast_available(device.type()))
      device_autocast_ = AutocastState::capture(device.type());
  }

  void restore(bool weight_cache) const {
    cpu_generator_.restore();
    if (device_generator_) device_generator_->restore();
    cpu_autocast_.restore();
    if (device_autocast_) device_autocast_->restore();
    at::autocast::set_autocast_cache_enabled(weight_cache);
  }

  c10::Device device_;
  GeneratorState cpu_generator_{c10::Device(c10::kCPU)};
  std::optional<GeneratorState> device_generator_;
  AutocastState cpu_autocast_ = AutocastState::capture(c10::kCPU);
  std::optional<AutocastState> device_autocast_;
  bool weight_cache_ = at::autocast::is_autocast_cache_enabled();
};

/// RAII: restores the captured state; at its end, also after an exception, restores the state from
/// before, so that random sequences outside continue as without it. With `weight_cache` false,
/// autocast casts each weight at each use inside. Costs a capture and two copies of the state. The
/// generators are shared by the whole process: numbers that other threads draw meanwhile are drawn
/// again afterwards.
class RngAutocastState::Replay {
 public:
  Replay(const RngAutocastState& state, bool weight_cache) : before_(state.device_) {
    try {
      state.restore(state.weight_cache_ && weight_cache);
    } catch (...) {
      before_.restore(before_.weight_cache_);
      throw;
    }
  }
  ~Replay() { before_.restore(before_.weight_cache_); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  RngAutocastState before_;
  AutocastNesting nesting_;
};

}  // namespace ikebana::bridge
