#pragma once
// Defines the policies Offload<CPU, ...> and Offload<Disk, ...>, and their mechanisms.
#include <ikebana/offload/offloads_activations.hpp>
#include <ikebana/offload/offloads_masters.hpp>

namespace ikebana {

/// Keeps parameters, gradients and the state of the optimizer in memory of the host, and updates
/// them there. Each unit's parameters are copied to the device while it computes, in forward and in
/// backward. Meanwhile, the parameters of the next unit are copied. For a model on the CPU it
/// copies within its memory and gains nothing. A step throws BadModel for a unit that it does not
/// run by `run`. With `allow_unused_units` it may leave units out. Source: PyTorch's FSDP2
/// CPUOffloadPolicy.
template <>
struct Offload<CPU> {
  static constexpr bool needs_units = true;  ///< the model must declare units
  bool allow_unused_units = false;           ///< a step may leave units out
};
/// Keeps master weights, gradients and the state of the optimizer in memory of the host, and
/// updates them there. Copies of the parameters stay on the device. In a step, 4 bytes per
/// parameter go over the bus each way. A step throws BadModel for a unit that it does not run by
/// `run`. With `allow_unused_units` it may leave units out. Source: Ren et al., arXiv:2101.06840.
template <>
struct Offload<CPU, OptimizerState> {
  bool allow_unused_units = false;  ///< a step may leave units out
};
/// Tensors that autograd saves in forward lie in memory of the host until backward needs them: all
/// but parameters, buffers, the batch, and storages under `min_bytes`. With Checkpoint only what it
/// keeps is moved. It changes no bit of a result. Source: torch.autograd.graph.save_on_cpu.
template <>
struct Offload<CPU, Activations> {
  std::int64_t min_bytes = 4096;  ///< smaller storages stay on the device
};
/// Offload<CPU, Activations> and Offload<CPU, OptimizerState> in one.
template <>
struct Offload<CPU, Activations, OptimizerState> {
  std::int64_t min_bytes = 4096;    ///< smaller storages stay on the device
  bool allow_unused_units = false;  ///< a step may leave units out
};
/// Offload<CPU, Activations> and Offload<CPU> in one.
template <>
struct Offload<CPU, Activations, Parameters> {
  static constexpr bool needs_units = true;  ///< the model must declare units
  std::int64_t min_bytes = 4096;             ///< smaller storages stay on the device
  bool allow_unused_units = false;           ///< a step may leave units out
};

/// Offload<CPU> in files of `folder`, which lies on a disk and must be named. The files have no
/// name, so that they are freed when the process ends; their space is reserved when they are made.
/// Tensors in them are mapped into memory, and leave it when they are not used: optimizers use
/// `window_bytes` of state at a time. Throws FileFailed if the folder cannot be written or has no
/// room, BadValue for a folder in memory (tmpfs).
template <>
struct Offload<Disk> {
  static constexpr bool needs_units = true;  ///< the model must declare units
  std::filesystem::path folder;              ///< a folder on a disk, which must exist
  std::int64_t window_bytes = 8 << 20;       ///< bytes of state in memory at once in an update
  bool allow_unused_units = false;           ///< a step may leave units out
};
/// Offload<CPU, OptimizerState> in files, as with Offload<Disk>.
template <>
struct Offload<Disk, OptimizerState> {
  std::filesystem::path folder;         ///< a folder on a disk, which must exist
  std::int64_t window_bytes = 8 << 20;  ///< bytes of state in memory at once in an update
  bool allow_unused_units = false;      ///< a step may leave units out
};
/// Offload<CPU, Activations> in files, as with Offload<Disk>.
template <>
struct Offload<Disk, Activations> {
  std::filesystem::path folder;      ///< a folder on a disk, which must exist
  std::int64_t min_bytes = 1 << 16;  ///< smaller storages stay on the device
};
/// Offload<Disk, Activations> and Offload<Disk, OptimizerState> in one.
template <>
struct Offload<Disk, Activations, OptimizerState> {
  std::filesystem::path folder;         ///< a folder on a disk, which must exist
  std::int64_t window_bytes = 8 << 20;  ///< bytes of state in memory at once in an update
  std::int64_t min_bytes = 1 << 16;     ///< smaller storages stay on the device
  bool allow_unused_units = false;      ///< a step may leave units out
};
/// Offload<Disk, Activations> and Offload<Disk> in one.
template <>
struct Offload<Disk, Activations, Parameters> {
  static constexpr bool needs_units = true;  ///< the model must declare units
  std::filesystem::path folder;              ///< a folder on a disk, which must exist
  std::int64_t window_bytes = 8 << 20;       ///< bytes of state in memory at once in an update
  std::int64_t min_bytes = 1 << 16;          ///< smaller storages stay on the device
  bool allow_unused_units = false;           ///< a step may leave units out
};

namespace detail {

/// The base of a mechanism that offloads only activations.
template <class Policy>
struct OffloadsNothing : OffloadHooks {
  using carries_out = Policy;
  Policy values;
  explicit OffloadsNothing(Policy v) : values(std::move(v)), folder_(values) {}
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate&) {
    folder_.check(values);
  }

 private:
  NamedFolder<Policy> folder_;
};

/// The parts of the mechanism of a policy on the axis offload.
template <class Policy>
struct offload_parts {};
template <class Where>
  requires(!std::is_same_v<Where, Off>)
struct offload_parts<Offload<Where>> {
  using type = OffloadsMasters<Offload<Where>, /*Keeps=*/false>;
};
template <class Where>
struct offload_parts<Offload<Where, OptimizerState>> {
  using type = OffloadsState<Offload<Where, OptimizerState>>;
};
template <class Where>
struct offload_parts<Offload<Where, Activations>> {
  using Policy = Offload<Where, Activations>;
  using type = OffloadsActivations<Policy, OffloadsNothing<Policy>>;
};
template <class Where>
struct offload_parts<Offload<Where, Activations, OptimizerState>> {
  using Policy = Offload<Where, Activations, OptimizerState>;
  using type = OffloadsActivations<Policy, OffloadsState<Policy>>;
};
template <class Where>
struct offload_parts<Offload<Where, Activations, Parameters>> {
  using Policy = Offload<Where, Activations, Parameters>;
  using type = OffloadsActivations<Policy, OffloadsMasters<Policy, /*Keeps=*/false>>;
};

}  // namespace detail

template <class Policy>
  requires requires { typename detail::offload_parts<Policy>::type; }
struct Mechanism<Policy> : detail::offload_parts<Policy>::type {
  explicit Mechanism(Policy v) : detail::offload_parts<Policy>::type(std::move(v)) {}
};

}  // namespace ikebana
