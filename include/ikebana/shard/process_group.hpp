#pragma once
// Defines the processes that train together, and how they reach each other.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <ikebana/detail/torch_c10d.hpp>
#include <ikebana/shard/failure/process_watch.hpp>
#include <ikebana/shard/failure/rank_waits.hpp>
#include <ikebana/shard/launch/world.hpp>
#include <memory>
#include <optional>

namespace ikebana {

/// The backend that carries the tensors of a model on a device.
enum class Backend : std::uint8_t {
  NCCL,  ///< for CUDA devices only
  Gloo   ///< with copies in host memory
};

namespace detail {

/// The data that the connections of one process group share.
struct GroupMembers {
  std::int64_t rank = 0, size = 1;
  bool all_local = true;  ///< all ranks are on this machine
  c10::intrusive_ptr<c10d::Store> store = {};
  std::chrono::milliseconds timeout = {};
  std::filesystem::path flight_recorder = {};      ///< the folder of this rank's file; empty: none
  std::optional<Backend> device_backend = {};      ///< the backend that the options ask for
  c10::intrusive_ptr<c10d::Backend> backend = {};  ///< a user's own; null if it is made when needed
  std::int64_t connections = 0;                    ///< the number of connections made so far, in
                                                   ///< the same order on all ranks
  std::shared_ptr<ProcessWatch> watch = {};        ///< null without a store
  std::shared_ptr<RankWaits> waits = {};           ///< null without a store
  /// Bytes of host memory that messages of this rank used in place of a device's memory.
  std::atomic<std::int64_t> staged_bytes = 0;
};

}  // namespace detail

/// The options of a ProcessGroup, the same on all ranks.
struct ProcessGroupOptions {
  /// The time that a rank waits for another one before it fails. The default is PyTorch's for Gloo.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
  /// The backend that carries tensors of a model on a device. By default NCCL for CUDA devices, and
  /// Gloo for others. Gloo copies each message to host memory and back, for which the host waits.
  /// Choose it for several ranks on one GPU, which NCCL refuses, and for programs without NCCL. All
  /// ranks choose the same. The trainer throws BadValue for NCCL if the model is not on a CUDA
  /// device.
  std::optional<Backend> backend = {};
  /// A folder in which each rank leaves its last 64 exchanges with the others when a call fails:
  /// `flight_recorder.rank3.csv`. It is made if it does not exist, and the rank's former file is
  /// removed when a trainer is made. If left out, the folder that the environment variable
  /// IKEBANA_FLIGHT_RECORDER names; without it no file is written. Each training needs a folder of
  /// its own. `compare_flight_records(folder)` reads the files. Throws FileFailed if the folder
  /// cannot be made.
  std::filesystem::path flight_recorder = {};
};

/// The ranks that train together. Copies are the same group. Each trainer that is given one makes
/// connections of its own, so that several trainers of a process do not disturb each other; all
/// ranks must make and call their trainers in the same order. If ranks wait for each other in two
/// trainers, all throw BadModel after some seconds, which names the trainers; if several threads
/// call trainers of the group, they throw RankFailed after the time limit. It uses LibTorch's
/// process groups (c10d): Gloo, and NCCL besides for models on a CUDA device, unless `backend` says
/// otherwise.
class ProcessGroup {
 public:
  /// The options of the group.
  using Options = ProcessGroupOptions;

  /// Returns the group of the ranks that torchrun, mpirun, srun or `launch` started, or of this
  /// process alone. It is made at the first use, which must be made by all ranks. A policy without
  /// `process_group` uses it.
  static ProcessGroup of_environment();
  /// Meets the other ranks of `world`. Throws RankFailed if they do not come in time.
  explicit ProcessGroup(const World& world, const Options& options = Options());
  /// Meets the other ranks by a store of c10d, of which each rank has a client.
  ProcessGroup(c10::intrusive_ptr<c10d::Store> store, std::int64_t rank, std::int64_t size,
               const Options& options = Options());
  /// Uses a backend of the user's own, for one trainer. It cannot be made again after a failure:
  /// that trainer can then not go on. It is given the tensors of a device themselves, unless it is
  /// LibTorch's Gloo.
  explicit ProcessGroup(c10::intrusive_ptr<c10d::Backend> backend);

  /// Returns this rank within the group, from 0.
  std::int64_t rank() const { return members_->rank; }
  /// Returns the number of ranks of the group.
  std::int64_t size() const { return members_->size; }
  /// Returns the data that the connections of its trainers share.
  const std::shared_ptr<detail::GroupMembers>& members() const { return members_; }

 private:
  std::shared_ptr<detail::GroupMembers> members_;
};

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/impl/process_group.ipp>
#endif
