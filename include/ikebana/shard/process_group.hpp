#pragma once
// The processes that train together, and how they reach each other.
#include <atomic>
#include <chrono>
#include <ikebana/shard/failure/process_watch.hpp>
#include <ikebana/shard/failure/rank_waits.hpp>
#include <ikebana/shard/group/backends.hpp>
#include <ikebana/shard/launch/world.hpp>
#include <memory>
#include <optional>

namespace ikebana {

namespace detail {

/// What the connections of one process group share.
struct GroupMembers {
  std::int64_t rank = 0, size = 1;
  bool all_local = true;  ///< all ranks on this machine
  c10::intrusive_ptr<c10d::Store> store = {};
  std::chrono::milliseconds timeout = {};
  std::optional<Backend> device_backend = {};      ///< that was asked for
  c10::intrusive_ptr<c10d::Backend> backend = {};  ///< a user's own; null: made when needed
  std::int64_t connections = 0;              ///< that were made, in the same order on all ranks
  std::shared_ptr<ProcessWatch> watch = {};  ///< null without a store
  std::shared_ptr<RankWaits> waits = {};     ///< the same
  /// Of host memory that messages of this rank had in place of a device's.
  std::atomic<std::int64_t> staged_bytes = 0;
};

}  // namespace detail

/// The options of a ProcessGroup, the same on all ranks.
struct ProcessGroupOptions {
  /// How long a rank waits for another one before it fails. PyTorch's default for Gloo.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// What carries tensors of a model on a device. By default NCCL for CUDA devices, and Gloo for
  /// others. Gloo copies each message to host memory and back, for which the host waits: for
  /// several ranks on one GPU, which NCCL refuses, and for programs without NCCL. All ranks choose
  /// the same. NCCL for a model that is not on a CUDA device is a BadValue when the trainer is
  /// made.
  std::optional<Backend> backend = {};
};

/// The ranks that train together. Copies are the same group. Each trainer that is given one makes
/// connections of its own, so that several trainers of a process do not disturb each other; all
/// ranks must make and call their trainers in the same order. Where ranks wait for each other in
/// two trainers, all throw BadModel after some seconds, which names them; where several threads
/// call trainers of the group, RankFailed after the time limit. Of LibTorch's process groups
/// (c10d): Gloo, and for models on a CUDA device NCCL beside it, unless `backend` says otherwise.
class ProcessGroup {
 public:
  /// Its options.
  using Options = ProcessGroupOptions;

  /// The group of this process: of the ranks that torchrun, mpirun, srun or `launch` started, or
  /// alone. Made at the first use, which all ranks make: a policy without `process_group` does.
  static ProcessGroup of_environment();
  /// Meets the other ranks of `world`. Throws RankFailed where they do not come in time.
  explicit ProcessGroup(const World& world, const Options& options = Options());
  /// Meets the other ranks by a store of c10d, of which each has a client.
  ProcessGroup(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t size,
               const Options& options = Options());
  /// A process group of the user's own, which one trainer may use. After a failure it cannot be
  /// made anew: that trainer is then at its end. It is given the tensors of a device themselves,
  /// unless it is LibTorch's Gloo.
  explicit ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend);

  /// This rank among those of the group, from 0.
  std::int64_t rank() const { return members_->rank; }
  /// How many ranks the group has.
  std::int64_t size() const { return members_->size; }
  /// What the connections of its trainers share.
  const std::shared_ptr<detail::GroupMembers>& members() const { return members_; }

 private:
  std::shared_ptr<detail::GroupMembers> members_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/impl/process_group.ipp>
#endif
