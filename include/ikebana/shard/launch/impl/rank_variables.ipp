#pragma once
#include <algorithm>
#include <cstddef>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/shard/launch/rank_variables.hpp>
#include <numeric>

namespace ikebana::detail {

IKEBANA_INLINE void require_all(const Environment& env, std::initializer_list<const char*> names) {
  for (const char* set : names)
    for (const char* missing : names)
      if (env.has(set) && !env.has(missing))
        throw BadValue(env.quoted(set) + " in the environment, but " + missing +
                       " is not set. Set both or neither; torchrun, mpirun, srun and "
                       "ikebana::launch set what is needed.");
}

inline void check_below(const Environment& env, const char* rank, const char* size,
                        std::int64_t value, std::int64_t end) {
  if (value < end) return;
  throw BadValue(env.quoted(rank) + " and " + size + " is " + std::to_string(end) +
                 " in the environment; ranks count from 0, so it must be less.");
}

IKEBANA_INLINE RankNumbers read_ranks(const Environment& env, const RankVariables& variables) {
  RankNumbers ranks{.started_by = variables.started_by};
  const auto& [by, rank, size, local_rank, local_size, job] = variables;
  require_all(env, {rank, size});
  ranks.size = env.number(size, 1, max_ranks);
  ranks.rank = env.number(rank, 0, max_ranks - 1);
  check_below(env, rank, size, ranks.rank, ranks.size);
  if (env.has(job)) ranks.job = env.text(job);
  if (!local_size || !env.has_any({local_rank, local_size})) return ranks;
  require_all(env, {local_rank, local_size});
  ranks.local_size = env.number(local_size, 1, ranks.size);
  ranks.local_rank = env.number(local_rank, 0, max_ranks - 1);
  check_below(env, local_rank, local_size, ranks.local_rank, ranks.local_size);
  return ranks;
}

/// How many of a step's tasks Slurm started on this node.
inline std::int64_t slurm_local_size(const Environment& env, std::int64_t size) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    if (!env.has(name)) continue;
    const auto tasks = tasks_per_node(env.text(name));
    if (!tasks) throw BadValue(env.quoted(name) + " in the environment; it must be as in 2(x3),1.");
    // That of a job may be set in a step with fewer tasks.
    if (std::accumulate(tasks->begin(), tasks->end(), std::int64_t{0}) != size) continue;
    const auto last = static_cast<std::int64_t>(tasks->size()) - 1;
    if (last == 0) return size;
    return (*tasks)[static_cast<std::size_t>(env.number("SLURM_NODEID", 0, last))];
  }
  if (size == 1) return 1;
  if (env.has("SLURM_NTASKS_PER_NODE"))
    return std::min(size, env.number("SLURM_NTASKS_PER_NODE", 1, max_ranks));
  throw BadValue(
      "World: SLURM_STEP_TASKS_PER_NODE is not set in the environment, so that it is not known how "
      "many ranks this host has. Give srun --ntasks-per-node, or set RANK, WORLD_SIZE, LOCAL_RANK "
      "and LOCAL_WORLD_SIZE for each rank.");
}

IKEBANA_INLINE void read_slurm_local_rank(const Environment& env, RankNumbers& ranks) {
  ranks.local_size = slurm_local_size(env, ranks.size);
  ranks.local_rank = env.number("SLURM_LOCALID", 0, max_ranks - 1);
  check_below(env, "SLURM_LOCALID", "the number of tasks on this node", ranks.local_rank,
              ranks.local_size);
}

/// A rank that srun started. A batch script and the shell of salloc have variables of Slurm too,
/// SLURM_NTASKS above all, but a program that they run is alone: it is no step's task, or the task
/// of one of Slurm's own steps, whose ids are the highest.
inline std::optional<RankNumbers> slurm_ranks(const Environment& env) {
  constexpr std::int64_t own_steps = 0xfffffff0, last = 0xffffffff;
  if (!env.has("SLURM_PROCID") || !env.has("SLURM_STEP_ID")) return {};
  if (env.number("SLURM_STEP_ID", 0, last) >= own_steps) return {};
  RankVariables variables = slurm_variables;
  if (env.has("SLURM_STEP_NUM_TASKS")) variables.size = "SLURM_STEP_NUM_TASKS";
  if (env.has("SLURM_HET_JOB_ID")) variables.job = "SLURM_HET_JOB_ID";
  return read_ranks(env, variables);
}

IKEBANA_INLINE std::optional<RankNumbers> started_ranks(const Environment& env) {
  const auto& mpi = open_mpi_variables;
  if (env.has_any({mpi.rank, mpi.size})) {
    require_all(env, {mpi.rank, mpi.size, mpi.local_rank, mpi.local_size});
    return read_ranks(env, mpi);
  }
  const auto& hydra = hydra_variables;
  if (env.has(hydra.local_rank) && env.has_any({hydra.rank, hydra.size})) {
    require_all(env, {hydra.rank, hydra.size, hydra.local_rank, hydra.local_size});
    return read_ranks(env, hydra);
  }
  return slurm_ranks(env);
}

}  // namespace ikebana::detail
