#pragma once
// Process groups of LibTorch, Gloo among hosts and NCCL among CUDA devices, and the groups of one
// trainer. They are made when its ranks meet, and dropped when one fails.
#include <chrono>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/shard/launch/meeting.hpp>
#include <ikebana/shard/process_group.hpp>

namespace ikebana::detail {

/// Connects with all ranks. With `all_local` they are on this machine, and GLOO_SOCKET_IFNAME,
/// which names a network interface, is not needed.
c10::intrusive_ptr<c10d::Backend> make_gloo(const c10::intrusive_ptr<c10d::Store>& store,
                                            std::int64_t rank, std::int64_t size,
                                            std::chrono::milliseconds timeout, bool all_local);

/// It is true if the program was compiled with NCCL.
#if defined(USE_C10D_NCCL) && __has_include(<nccl.h>) && __has_include(<cuda_runtime_api.h>)
inline constexpr bool has_nccl = true;
#else
inline constexpr bool has_nccl = false;
#endif

/// Throws BadValue if the program was compiled without NCCL.
void check_nccl();

/// Connects with all ranks, for tensors on CUDA devices.
c10::intrusive_ptr<c10d::Backend> make_nccl(
    [[maybe_unused]] const c10::intrusive_ptr<c10d::Store>& store,
    [[maybe_unused]] std::int64_t rank, [[maybe_unused]] std::int64_t size,
    [[maybe_unused]] std::chrono::milliseconds timeout);

/// The backends of one trainer: Gloo among hosts, and NCCL besides among CUDA devices; or a user's
/// own.
class RankBackends {
 public:
  explicit RankBackends(std::shared_ptr<GroupMembers> members) : members_(std::move(members)) {}

  bool is_users_own() const { return members_->backend != nullptr; }
  bool are_there() const { return host_ != nullptr; }
  c10d::Backend& host() const { return *host_; }
  c10d::Backend& of(c10::Device device) const;
  /// The transport of the model's tensors, as ranks compare it.
  std::string transport(c10::Device device) const;
  /// Puts host memory in place of tensors of this device if Gloo sends them, which sends only host
  /// memory.
  StagedTensors stage(TensorsOfRanks& to, TensorsOfRanks& from, c10::Device device) const;
  /// Puts host memory in place of a tensor that is summed over ranks in place.
  StagedTensors stage(at::Tensor& t) const;
  /// The tensor that is broadcast for `t`: contiguous, and in host memory if Gloo sends it. It is
  /// `t` itself, a copy, or memory for a copy that is received first.
  at::Tensor to_broadcast(const at::Tensor& t, bool is_received) const;
  /// Returns true if the host waits for messages of this device's tensors, as with Gloo, and false
  /// if a stream of the device does. It is known after `connect_devices`.
  bool host_waits(c10::Device device) const { return device.is_cpu() || stages(device); }
  /// Throws BadValue if the options ask for a backend that this device cannot use. One rank needs
  /// no backend, unless it asks for one.
  void check(c10::Device device) const;
  /// Takes the user's own backend, which can be used once.
  void take_users_own(bool has_failed);
  /// Replaces the backends by one for the tensors of every device. The former ones are never
  /// destroyed, since their threads do not exist in a copy of the process.
  void replace(c10::intrusive_ptr<c10d::Backend> by);
  /// Connects with all ranks, which meet in this store within the time limit.
  void connect(StorePtr store);
  /// Connects for the tensors of this device, after `connect`. Throws BadValue as `check` does.
  void connect_devices(c10::Device device);
  /// Drops the backends at once. Messages that are not given up keep the connection, and the others
  /// wait.
  void drop() noexcept;

 private:
  /// True if tensors of this device are sent in host memory; false before the ranks are connected.
  bool stages(c10::Device device) const;
  bool uses_nccl(c10::Device device) const;

  std::shared_ptr<GroupMembers> members_;
  StorePtr store_;  // in which the ranks meet
  c10::intrusive_ptr<c10d::Backend> host_, on_device_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/backends.ipp>
#endif
