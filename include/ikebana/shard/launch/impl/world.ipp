#pragma once
#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/detail/text.hpp>
#include <ikebana/error.hpp>
#include <ikebana/posix/process.hpp>
#include <ikebana/shard/launch/world.hpp>
#include <limits>
#include <numeric>
#include <system_error>
#include <utility>

namespace ikebana::detail {

IKEBANA_INLINE Environment Environment::of_process() {
  return {[](const char* name) { return std::getenv(name); }, parent_process()};
}

IKEBANA_INLINE bool Environment::has_any(std::initializer_list<const char*> names) const {
  return std::any_of(names.begin(), names.end(), [&](const char* name) { return has(name); });
}

IKEBANA_INLINE std::string Environment::text(const char* name) const {
  if (!has(name)) return {};
  std::string value = get_(name);
  if (value.empty())
    throw BadValue(std::string("World: ") + name +
                   " is set in the environment, but empty. Give it a value or unset it.");
  return value;
}

IKEBANA_INLINE std::int64_t Environment::number(const char* name, std::int64_t min,
                                                std::int64_t max) const {
  const std::string value = text(name);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  const bool whole = error == std::errc() && end == value.data() + value.size();
  if (whole && number >= min && number <= max) return number;
  throw BadValue(quoted(name) + " in the environment; it must be a whole number from " +
                 std::to_string(min) + " to " + std::to_string(max) + ".");
}

IKEBANA_INLINE std::string Environment::quoted(const char* name) const {
  return std::string("World: ") + name +
         (has(name) ? " is \"" + escaped(get_(name)) + "\"" : " is not set");
}

IKEBANA_INLINE std::optional<std::vector<std::int64_t>> tasks_per_node(const std::string& text) {
  std::vector<std::int64_t> tasks;
  const char *at = text.data(), *end = at + text.size();
  for (bool more = true; more;) {
    std::int64_t count = 0, nodes = 1;
    auto read = std::from_chars(at, end, count);
    if (read.ec != std::errc() || count < 0) return {};
    at = read.ptr;
    if (end - at > 2 && at[0] == '(' && at[1] == 'x') {
      read = std::from_chars(at + 2, end, nodes);
      if (read.ec != std::errc() || nodes < 1 || nodes > 1'000'000) return {};
      if (read.ptr == end || *read.ptr != ')') return {};
      at = read.ptr + 1;
    }
    tasks.insert(tasks.end(), static_cast<std::size_t>(nodes), count);
    more = at != end;
    if (more && *at++ != ',') return {};
  }
  return tasks;
}

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

/// The numbers of one rank that these variables give.
struct RankNumbers {
  std::int64_t rank = 0, size = 1, local_rank = 0, local_size = 1;
  std::string started_by = {}, job = {};
};

/// Throws BadValue if some of the variables are set and another is not.
inline void require_all(const Environment& env, std::initializer_list<const char*> names) {
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

/// Reads rank and size, and the local ones if `variables` names both and both are set.
inline RankNumbers read_ranks(const Environment& env, const RankVariables& variables) {
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

/// Returns how many of a step's tasks Slurm started on this node.
inline std::int64_t slurm_local_size(const Environment& env, std::int64_t size) {
  for (const char* name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    if (!env.has(name)) continue;
    const auto tasks = tasks_per_node(env.text(name));
    if (!tasks) throw BadValue(env.quoted(name) + " in the environment; it must be as in 2(x3),1.");
    // A step with fewer tasks may have the variable of its job.
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

inline void read_slurm_local_rank(const Environment& env, RankNumbers& ranks) {
  ranks.local_size = slurm_local_size(env, ranks.size);
  ranks.local_rank = env.number("SLURM_LOCALID", 0, max_ranks - 1);
  check_below(env, "SLURM_LOCALID", "the number of tasks on this node", ranks.local_rank,
              ranks.local_size);
}

/// Reads a rank that srun started. A batch script and the shell of salloc have variables of Slurm,
/// too, above all SLURM_NTASKS, but a program that they run is alone: it is no task of a step, or
/// the task of one of Slurm's own steps, which have the highest ids.
inline std::optional<RankNumbers> slurm_ranks(const Environment& env) {
  constexpr std::int64_t own_steps = 0xfffffff0, last = 0xffffffff;
  if (!env.has("SLURM_PROCID") || !env.has("SLURM_STEP_ID")) return {};
  if (env.number("SLURM_STEP_ID", 0, last) >= own_steps) return {};
  RankVariables variables = slurm_variables;
  if (env.has("SLURM_STEP_NUM_TASKS")) variables.size = "SLURM_STEP_NUM_TASKS";
  if (env.has("SLURM_HET_JOB_ID")) variables.job = "SLURM_HET_JOB_ID";
  return read_ranks(env, variables);
}

/// Reads rank and size from mpirun, mpiexec or srun. mpirun comes before srun, by which it may have
/// started its daemons.
inline std::optional<RankNumbers> started_ranks(const Environment& env) {
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

namespace ikebana {

IKEBANA_INLINE void World::check() const {
  auto below = [](std::int64_t number, std::int64_t end) { return 0 <= number && number < end; };
  auto pair = [](std::int64_t number, std::int64_t end) {
    return std::to_string(number) + " of " + std::to_string(end);
  };
  if (!below(rank, size))
    throw BadValue("World: rank " + pair(rank, size) +
                   " is impossible; ranks count from 0 and must be less than their number.");
  if (!below(local_rank, local_size) || local_size > size)
    throw BadValue("World: local rank " + pair(local_rank, local_size) + ", in a world of " +
                   std::to_string(size) +
                   ", is impossible; local ranks count from 0 and must be less than their number, "
                   "which is at most the size of the world.");
  if (size == 1) return;
  if (master_addr.empty())
    throw BadValue("World: master_addr is empty; it must name the host of rank 0.");
  if (master_port < 1 || master_port > 65535)
    throw BadValue("World: master_port is " + std::to_string(master_port) +
                   "; it must be a port that is free at the host of rank 0, from 1 to 65535.");
}

}  // namespace ikebana

namespace ikebana::detail {

/// Reads the address of a world of several ranks.
inline void read_address(const Environment& env, World& world, bool has_default) {
  if (world.size == 1) return;
  for (const char* name : {"MASTER_ADDR", "MASTER_PORT"})
    if (!has_default && !env.has(name))
      throw BadValue(
          "World: there are " + std::to_string(world.size) + " ranks (" + world.started_by +
          "), and " + name +
          " is not set in the environment. Set MASTER_ADDR to the host of rank 0 and "
          "MASTER_PORT to a port that is free there, the same for all ranks: for srun by "
          "export MASTER_PORT=29500 MASTER_ADDR=$(scontrol show hostnames "
          "\"$SLURM_JOB_NODELIST\" | head -n 1), for mpirun by -x MASTER_PORT=29500 "
          "-x MASTER_ADDR=<host>.");
  world.master_addr = env.has("MASTER_ADDR") ? env.text("MASTER_ADDR") : "127.0.0.1";
  world.master_port = env.has("MASTER_PORT") ? env.number("MASTER_PORT", 1, 65535) : 29500;
}

/// Sets the local rank if LOCAL_RANK is not set: it is known only if all ranks are on one host.
inline void guess_local_rank(const Environment& env, World& world) {
  const std::string& address = world.master_addr;
  if (world.size == 1 || env.has("LOCAL_RANK")) return;
  if (!address.starts_with("127.") && address != "localhost" && address != "::1")
    throw BadValue(
        "World: " + env.quoted("RANK").substr(7) + " in the environment, but LOCAL_RANK " +
        "and LOCAL_WORLD_SIZE are not set, which count the ranks on one host and choose " +
        "their devices. Set both; where each host has one rank, to 0 and 1.");
  world.local_rank = world.rank, world.local_size = world.size;
}

/// Reads a rank of `launch`, and checks that its launcher has started it.
inline void read_launch(const Environment& env, World& world) {
  constexpr std::int64_t last = std::numeric_limits<std::int32_t>::max();
  if (env.number("IKEBANA_LAUNCHER", 1, last) != env.parent())
    throw BadValue(
        "World: " + env.quoted("RANK").substr(7) +
        ", as of a rank of ikebana::launch, which did not start this process: it inherited "
        "the variable. Unset RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE and "
        "IKEBANA_LAUNCHER for programs that a rank starts.");
  world.started_by = "launch";
  if (world.rank == 0 && env.has("IKEBANA_LISTEN_FD"))
    world.listen_fd = static_cast<int>(env.number("IKEBANA_LISTEN_FD", 0, last));
}

/// Finds a RANK that was exported once, before mpirun or srun started several ranks.
inline void check_set_for_each_rank(const Environment& env, const World& world) {
  const auto started = started_ranks(env);
  if (!started || started->size < world.size) return;
  if (started->size == world.size && started->rank == world.rank) return;
  throw BadValue(env.quoted("RANK") + " and WORLD_SIZE is " + std::to_string(world.size) +
                 " in the environment, but by " + started->started_by + " this is rank " +
                 std::to_string(started->rank) + " of " + std::to_string(started->size) +
                 ". Unset RANK and WORLD_SIZE, or set them for each rank.");
}

/// Reads a world of which RANK and WORLD_SIZE are set, by torchrun, `launch` or something else.
inline World torch_world(const Environment& env, World world) {
  if (env.has("TORCHELASTIC_RUN_ID")) {
    world.started_by = "torchrun";
    world.agent_store = env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    if (env.has("TORCHELASTIC_RESTART_COUNT"))
      world.restart_count = env.number("TORCHELASTIC_RESTART_COUNT", 0, max_ranks);
  } else if (env.has("IKEBANA_LAUNCHER")) {
    read_launch(env, world);
  } else {
    check_set_for_each_rank(env, world);
  }
  read_address(env, world, /*has_default=*/false);
  guess_local_rank(env, world);
  return world;
}

/// Checks that torchrun's variables, if they are set beside another program's, do not contradict
/// them.
inline void check_agreement(const Environment& env, const World& world) {
  const std::pair<const char*, std::int64_t> known[] = {{"WORLD_SIZE", world.size},
                                                        {"LOCAL_RANK", world.local_rank},
                                                        {"LOCAL_WORLD_SIZE", world.local_size}};
  for (const auto& [name, value] : known)
    if (env.has(name) && env.number(name, 0, max_ranks) != value)
      throw BadValue(env.quoted(name) + " in the environment, but by " + world.started_by +
                     " it is " + std::to_string(value) + ". Unset it, or set it for each rank.");
}

IKEBANA_INLINE World read_world(const Environment& env) {
  auto world_of = [](const RankNumbers& n) {
    return World{.rank = n.rank,
                 .size = n.size,
                 .local_rank = n.local_rank,
                 .local_size = n.local_size,
                 .started_by = n.started_by,
                 .job = n.job};
  };
  if (env.has("RANK")) return torch_world(env, world_of(read_ranks(env, torch_variables)));
  auto started = started_ranks(env);
  if (!started) {
    require_all(env, {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"});
    return {};
  }
  if (started->started_by == "srun") read_slurm_local_rank(env, *started);
  World world = world_of(*started);
  check_agreement(env, world);
  read_address(env, world, /*has_default=*/world.local_size == world.size);
  return world;
}

}  // namespace ikebana::detail

namespace ikebana {

IKEBANA_INLINE World World::from_environment() {
  return detail::read_world(detail::Environment::of_process());
}

}  // namespace ikebana
