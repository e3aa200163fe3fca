#pragma once
// The process groups of one trainer: they are made when its ranks meet, and dropped when one fails.
#include <ikebana/shard/launch/meeting.hpp>
#include <ikebana/shard/process_group.hpp>

namespace ikebana::detail {

/// Gloo among hosts, and NCCL beside it among CUDA devices; or one of the user's own.
class RankBackends {
 public:
  explicit RankBackends(std::shared_ptr<GroupMembers> members) : members_(std::move(members)) {}

  bool is_users_own() const { return members_->backend != nullptr; }
  bool are_there() const { return host_ != nullptr; }
  c10d::Backend& host() const { return *host_; }
  c10d::Backend& of(c10::Device device) const;
  /// How tensors of the model travel, as ranks compare it.
  std::string transport(c10::Device device) const;
  /// Puts host memory in place of tensors of this device where Gloo, which has no other, sends
  /// them.
  StagedTensors stage(TensorsOfRanks& to, TensorsOfRanks& from, c10::Device device) const;
  /// The same of a tensor that is summed over ranks in place.
  StagedTensors stage(at::Tensor& t) const;
  /// What is broadcast of `t`: contiguous, and in host memory where Gloo sends it. Itself, a copy,
  /// or memory for one that is received first.
  at::Tensor to_broadcast(const at::Tensor& t, bool is_received) const;
  /// Throws BadValue where the options ask for what cannot be on this device. One rank needs no
  /// backend, unless it asks for one.
  void check(c10::Device device) const;
  /// Takes the user's own, which serves once.
  void take_users_own(bool has_failed);
  /// By one for the tensors of every device. The former ones are never destroyed: in a copy of the
  /// process their threads are missing.
  void replace(c10::intrusive_ptr<c10d::Backend> by);
  /// Connects with all ranks, which meet in this store within the time limit.
  void connect(StorePtr store);
  /// After it: for the tensors of this device. Throws BadValue as `check` does.
  void connect_devices(c10::Device device);
  /// At once. Messages that are not given up keep the connection, and the others wait.
  void drop() noexcept;

 private:
  /// False before the ranks are connected.
  bool stages(c10::Device device) const;
  bool uses_nccl(c10::Device device) const;

  std::shared_ptr<GroupMembers> members_;
  StorePtr store_;  // in which they meet
  c10::intrusive_ptr<c10d::Backend> host_, on_device_;
};

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/group/impl/rank_backends.ipp>
#endif
