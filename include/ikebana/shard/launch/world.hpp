#pragma once
// Where this process is among those that train together, by whichever way they were started.
#include <cstdint>
#include <ikebana/shard/launch/environment.hpp>

namespace ikebana {

/// A process and those that train together with it. Fill it in yourself, or read it from what
/// started the process: `World::from_environment()`.
struct World {
  std::int64_t rank = 0;        ///< this process among all, from 0
  std::int64_t size = 1;        ///< how many there are
  std::int64_t local_rank = 0;  ///< this process among those on its host, as for choosing a device
  std::int64_t local_size = 1;  ///< how many there are on its host
  /// Where the ranks meet: the host of rank 0. The same for all ranks; not used where `size` is 1.
  std::string master_addr = {};
  std::int64_t master_port = 0;  ///< a port that is free there, 1 to 65535; the same for all ranks
  /// What started the ranks: "torchrun", "launch", "mpirun", "mpiexec", "srun", or "RANK and
  /// WORLD_SIZE" that something else set. Empty for a process that is alone.
  std::string started_by = {};
  /// Tells trainings apart that meet at one address by mistake. The same for all ranks.
  std::string job = {};
  /// torchrun's: its agent listens at the address, and all ranks connect to it.
  bool agent_store = false;
  /// torchrun's: how often this host has started its ranks anew.
  std::int64_t restart_count = 0;
  /// Of rank 0 under `launch`: a socket that listens at the address already.
  int listen_fd = -1;

  /// What the environment says. The first of these counts: RANK and WORLD_SIZE (torchrun, `launch`,
  /// or set by hand), Open MPI's OMPI_COMM_WORLD_*, PMI_RANK and MPI_LOCALRANKID (MPICH, Intel
  /// MPI), Slurm's variables in a process that srun started; one rank where there is none of them.
  /// Throws BadValue for variables that are incomplete, out of range or contradict each other.
  static World from_environment();
  /// Throws BadValue for values that no process can have.
  void check() const;
};

namespace detail {

World read_world(const Environment& env);

}

}  // namespace ikebana

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/launch/impl/world.ipp>
#endif
