#pragma once
// The place of this process among the processes that train together, however they were started.
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

namespace ikebana {

/// The place of a process among the processes that train together. Fill it in yourself, or read it
/// from what started the process: `World::from_environment()`.
struct World {
  std::int64_t rank = 0;        ///< the rank of this process, from 0
  std::int64_t size = 1;        ///< the number of processes
  std::int64_t local_rank = 0;  ///< the rank within its host, e.g. to choose a device
  std::int64_t local_size = 1;  ///< the number of processes on its host
  /// The host of rank 0, where the ranks meet. It is the same for all ranks, and not used if `size`
  /// is 1.
  std::string master_addr = {};
  std::int64_t master_port = 0;  ///< a port that is free there, 1 to 65535; the same for all ranks
  /// The program that started the ranks: "torchrun", "launch", "mpirun", "mpiexec", "srun", or
  /// "RANK and WORLD_SIZE" if something else set these. Empty for a process that is alone.
  std::string started_by = {};
  /// Tells trainings apart that meet at one address by mistake. It is the same for all ranks.
  std::string job = {};
  /// True if torchrun's agent listens at the address, and all ranks connect to it.
  bool agent_store = false;
  /// The number of times that torchrun has restarted the ranks of this host.
  std::int64_t restart_count = 0;
  /// For rank 0 under `launch`, a socket that listens at the address already.
  int listen_fd = -1;

  /// Reads the environment. It uses the first of these that is set: RANK and WORLD_SIZE (torchrun,
  /// `launch`, or set by hand), Open MPI's OMPI_COMM_WORLD_*, PMI_RANK and MPI_LOCALRANKID (MPICH,
  /// Intel MPI), Slurm's variables in a process that srun started. If nothing is set, there is one
  /// rank. Throws BadValue for variables that are incomplete, out of range or contradict each
  /// other.
  static World from_environment();
  /// Throws BadValue for values that no process can have.
  void check() const;
};

namespace detail {

/// The environment variables of a process, as checked values. Every error names the variable and
/// its value.
class Environment {
 public:
  using Get = std::function<const char*(const char*)>;
  /// `get` is std::getenv; `parent` is the process that started this one.
  Environment(Get get, std::int64_t parent) : get_(std::move(get)), parent_(parent) {}
  static Environment of_process();

  std::int64_t parent() const { return parent_; }
  bool has(const char* name) const { return name != nullptr && get_(name) != nullptr; }
  bool has_any(std::initializer_list<const char*> names) const;
  /// Returns the value, which must not be empty, or "" if the variable is not set.
  std::string text(const char* name) const;
  /// Returns a whole number from `min` to `max`. The variable must be set.
  std::int64_t number(const char* name, std::int64_t min, std::int64_t max) const;
  /// Writes `World: RANK is "x"`, for an error.
  std::string quoted(const char* name) const;

 private:
  Get get_;
  std::int64_t parent_;
};

World read_world(const Environment& env);

/// Reads Slurm's tasks on each node: "2(x3),1" stands for 2, 2, 2 and 1. Returns no value if it
/// cannot be read.
std::optional<std::vector<std::int64_t>> tasks_per_node(const std::string& text);

}  // namespace detail
}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/launch/impl/world.ipp>
#endif
