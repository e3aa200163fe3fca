#pragma once
// Captures the global state that a computation depends on besides its arguments: the states of the
// random number generators, and autocast. It is captured in forward, and restored for a recompute.

#include <ikebana/bridge/generator_state.hpp>
#include <optional>

namespace ikebana::bridge {

/// A choice of the two generators, the CPU's and the device's.
struct RngSet {
  bool cpu = true, device = true;

  bool any() const { return cpu || device; }
  RngSet operator&(const RngSet& other) const { return {cpu && other.cpu, device && other.device}; }
  RngSet operator|(const RngSet& other) const { return {cpu || other.cpu, device || other.device}; }
};
/// The positions of both generators in their sequences.
struct RngPositions {
  GeneratorPosition cpu, device;

  RngSet differ(const RngPositions& other) const;
};

/// The state of autocast for one device type on this thread: enabled or not, and its dtype.
struct AutocastState {
  c10::DeviceType device_type;
  bool enabled;
  at::ScalarType dtype;

  static AutocastState capture(c10::DeviceType type);
  static bool is_available(c10::DeviceType type);

  void restore() const;
};

/// RAII: one more level of nested autocast. Leaving the outermost level clears the cache of cast
/// weights.
class AutocastNesting {
 public:
  AutocastNesting();
  ~AutocastNesting();
  AutocastNesting(const AutocastNesting&) = delete;
  AutocastNesting& operator=(const AutocastNesting&) = delete;
};

/// RAII: autocast on this thread does not cache cast weights. Costs nothing measurable.
class NoWeightCacheScope {
 public:
  NoWeightCacheScope();
  ~NoWeightCacheScope();
  NoWeightCacheScope(const NoWeightCacheScope&) = delete;
  NoWeightCacheScope& operator=(const NoWeightCacheScope&) = delete;

 private:
  bool before_;
};

/// RAII: autocast to `dtype` on `device_type`, or off if dtype is Undefined; restores the previous
/// state. Costs well under a microsecond. Throws c10::Error for a device type without autocast.
class AutocastScope {
 public:
  /// Begins the scope, on this thread.
  AutocastScope(c10::DeviceType device_type, at::ScalarType dtype);
  ~AutocastScope() { before_.restore(); }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  AutocastState before_;
  AutocastNesting nesting_;
};

/// The states of the CPU's generator and of `device`'s, and autocast of both: a recompute must
/// start from the same ones as its forward. Costs 2.5 kB and some 100 ns for the CPU; for an
/// accelerator 16 bytes more, without synchronization.
class RngAutocastState {
 public:
  /// For a device without a generator or autocast of its own (meta), only the CPU's are captured.
  static RngAutocastState capture(c10::Device device);
  /// Returns the generators' positions when they were captured, and now.
  RngPositions positions() const;
  RngPositions positions_now() const;

  class Replay;

 private:
  RngAutocastState(c10::Device device, RngSet generators);

  template <class F>
  RngPositions positions(F&& position) const {
    RngPositions all;
    if (cpu_generator_) all.cpu = position(*cpu_generator_);
    if (device_generator_) all.device = position(*device_generator_);
    return all;
  }
  void restore(bool weight_cache, RngSet generators) const;

  c10::Device device_;
  std::optional<GeneratorState> cpu_generator_, device_generator_;
  AutocastState cpu_autocast_ = AutocastState::capture(c10::kCPU);
  std::optional<AutocastState> device_autocast_;
  bool weight_cache_;
};

/// RAII: restores the captured state; at its end, also after an exception, restores the former
/// state, so that random sequences outside continue as without it. With `weight_cache` false,
/// autocast casts each weight at each use inside. Costs a capture and two copies of the state;
/// generators that are not in `generators` stay as they are. The whole process shares the others:
/// other threads meanwhile draw numbers of the replayed sequence, and these numbers are drawn again
/// afterwards.
class RngAutocastState::Replay {
 public:
  Replay(const RngAutocastState& state, bool weight_cache, RngSet generators = {});
  ~Replay() { before_.restore(before_.weight_cache_, generators_); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  RngSet generators_;
  RngAutocastState before_;
  AutocastNesting nesting_;
};

}  // namespace ikebana::bridge

#ifndef IKEBANA_COMPILED
#include <ikebana/bridge/impl/rng_autocast_state.ipp>
#endif
