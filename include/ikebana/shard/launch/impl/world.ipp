#pragma once
#include <cstring>
#include <ikebana/detail/form.hpp>
#include <ikebana/error.hpp>
#include <ikebana/shard/launch/rank_variables.hpp>
#include <ikebana/shard/launch/world.hpp>
#include <limits>
#include <utility>

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

/// The address of a world of several ranks.
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

/// Without LOCAL_RANK: known only where all ranks are on one host.
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

/// A rank of `launch`, which its launcher has started itself.
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

/// RANK and WORLD_SIZE are set, by torchrun, `launch` or something else.
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

/// Variables of torchrun beside another program's must not say something else.
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
