#pragma once
// How programs that start ranks describe each of them: torchrun, mpirun and srun.
#include <ikebana/shard/launch/environment.hpp>

namespace ikebana::detail {

/// The variables by which a program that starts ranks describes each of them.
struct RankVariables {
  const char *started_by, *rank, *size, *local_rank, *local_size, *job;
};
inline constexpr RankVariables torch_variables{"RANK and WORLD_SIZE", "RANK",
                                               "WORLD_SIZE",          "LOCAL_RANK",
                                               "LOCAL_WORLD_SIZE",    "TORCHELASTIC_RUN_ID"};
inline constexpr RankVariables open_mpi_variables{"mpirun",
                                                  "OMPI_COMM_WORLD_RANK",
                                                  "OMPI_COMM_WORLD_SIZE",
                                                  "OMPI_COMM_WORLD_LOCAL_RANK",
                                                  "OMPI_COMM_WORLD_LOCAL_SIZE",
                                                  "PMIX_NAMESPACE"};
inline constexpr RankVariables hydra_variables{"mpiexec",         "PMI_RANK",        "PMI_SIZE",
                                               "MPI_LOCALRANKID", "MPI_LOCALNRANKS", nullptr};
inline constexpr RankVariables slurm_variables{"srun",          "SLURM_PROCID", "SLURM_NTASKS",
                                               "SLURM_LOCALID", nullptr,        "SLURM_JOB_ID"};
inline constexpr std::int64_t max_ranks = 1 << 20;

/// What they say of one rank.
struct RankNumbers {
  std::int64_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string started_by = {}, job = {};
};

/// Throws BadValue where some of the variables are set and another is not.
void require_all(const Environment& env, std::initializer_list<const char*> names);

/// Rank and size; the local ones where `variables` names both and both are set.
RankNumbers read_ranks(const Environment& env, const RankVariables& variables);

void read_slurm_local_rank(const Environment& env, RankNumbers& ranks);

/// Rank and size by mpirun, mpiexec or srun. mpirun comes before srun, by which it may have started
/// its daemons.
std::optional<RankNumbers> started_ranks(const Environment& env);

}  // namespace ikebana::detail

#ifndef IKEBANA_COMPILED
#include <ikebana/shard/launch/impl/rank_variables.ipp>
#endif
