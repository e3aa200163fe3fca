#pragma once
// What a computation reads besides its arguments: the random generators and autocast.

#include <ikebana/bridge/device.hpp>
#include <ikebana/detail/torch.hpp>
#include <mutex>
#include <optional>

namespace ikebana::bridge {

/// A default generator and its state at one moment.
class GeneratorState {
 public:
  explicit GeneratorState(c10::Device device)
      : generator_(at::globalContext().defaultGenerator(device)) {
    std::lock_guard lock(generator_.mutex());
    state_ = generator_.get_state();
  }

  void put() const {
    auto generator = generator_;
    std::lock_guard lock(generator.mutex());
    generator.set_state(state_);
  }

 private:
  at::Generator generator_;
  at::Tensor state_;
};

/// Autocast of one device type on this thread: whether it is on, and its type.
struct AutocastState {
  c10::DeviceType device_type;
  bool enabled;
  at::ScalarType dtype;

  static AutocastState capture(c10::DeviceType type) {
    return {type, at::autocast::is_autocast_enabled(type), at::autocast::get_autocast_dtype(type)};
  }

  void put() const {
    at::autocast::set_autocast_enabled(device_type, enabled);
    at::autocast::set_autocast_dtype(device_type, dtype);
  }
};

/// One more level of autocast: the last one to leave clears the cache of cast weights.
class AutocastNesting {
 public:
  AutocastNesting() { at::autocast::increment_nesting(); }
  ~AutocastNesting() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }
  AutocastNesting(const AutocastNesting&) = delete;
  AutocastNesting& operator=(const AutocastNesting&) = delete;
};

/// RAII: while alive, autocast keeps no cast weights on this thread. Costs nothing measurable.
class NoWeightCacheScope {
 public:
  NoWeightCacheScope() { at::autocast::set_autocast_cache_enabled(false); }
  ~NoWeightCacheScope() { at::autocast::set_autocast_cache_enabled(before_); }
  NoWeightCacheScope(const NoWeightCacheScope&) = delete;
  NoWeightCacheScope& operator=(const NoWeightCacheScope&) = delete;

 private:
  bool before_ = at::autocast::is_autocast_cache_enabled();
};

/// RAII: autocast to `dtype` on `device_type`, off where dtype is Undefined; puts back what was
/// before. Costs well under a microsecond. Throws c10::Error for a device type that has no
/// autocast.
class AutocastScope {
 public:
  AutocastScope(c10::DeviceType device_type, at::ScalarType dtype)
      : before_(AutocastState::capture(device_type)) {
    const bool on = dtype != at::ScalarType::Undefined;
    AutocastState{device_type, on, on ? dtype : before_.dtype}.put();
  }
  ~AutocastScope() { before_.put(); }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState before_;
  AutocastNesting nesting_;
};

/// The state of the CPU's generator and of `device`'s, and autocast of both: what a recomputation
/// must see again. Costs 5 kB and about a microsecond for the CPU; 16 bytes more, and no waiting,
/// for an accelerator.
class RngAutocastState {
 public:
  /// A device without a generator or autocast of its own (meta) adds nothing to the CPU's.
  static RngAutocastState capture(c10::Device device) { return RngAutocastState(with_index(device)); }

  class Replay;

 private:
  explicit RngAutocastState(c10::Device device) : device_(device) {
    if (device.is_cpu()) return;
    if (at::isAccelerator(device.type())) device_generator_.emplace(device);
    if (at::autocast::is_autocast_available(device.type()))
      device_autocast_ = AutocastState::capture(device.type());
  }

  void put(bool weight_cache) const {
    cpu_generator_.put();
    if (device_generator_) device_generator_->put();
    cpu_autocast_.put();
    if (device_autocast_) device_autocast_->put();
    at::autocast::set_autocast_cache_enabled(weight_cache);
  }

  c10::Device device_;
  GeneratorState cpu_generator_{c10::Device(c10::kCPU)};
  std::optional<GeneratorState> device_generator_;
  AutocastState cpu_autocast_ = AutocastState::capture(c10::kCPU);
  std::optional<AutocastState> device_autocast_;
  bool weight_cache_ = at::autocast::is_autocast_cache_enabled();
};

/// RAII: puts the captured state in place; at its end, also by an exception, puts back what was
/// before, so that the sequences drawn outside go on untouched. With `weight_cache` false, autocast
/// casts each weight anew inside. Costs a capture and two copies of the state. The generators
/// belong to the whole process: what other threads draw meanwhile is drawn again.
class RngAutocastState::Replay {
 public:
  Replay(const RngAutocastState& ambient, bool weight_cache) : before_(ambient.device_) {
    try {
      ambient.put(ambient.weight_cache_ && weight_cache);
    } catch (...) {
      before_.put(before_.weight_cache_);
      throw;
    }
  }
  ~Replay() { before_.put(before_.weight_cache_); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  RngAutocastState before_;
  AutocastNesting nesting_;
};

}  // namespace ikebana::bridge
