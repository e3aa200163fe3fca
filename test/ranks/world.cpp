// Tests which rank a process is, by what started it.
#include "test.hpp"

#include <cstdlib>
#include <ikebana/shard/launch/world.hpp>
#include <utility>

using namespace ikebana;

namespace test::ranks::world {

using Variables = std::map<std::string, std::string>;

World read(const Variables& variables, std::int64_t parent = 99) {
  auto get = [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return ikebana::detail::read_world(ikebana::detail::Environment(get, parent));
}
/// Returns "rank/size local_rank/local_size started_by address:port".
std::string read_text(const Variables& variables, std::int64_t parent = 99) {
  const World w = read(variables, parent);
  w.check();
  auto text = [](std::int64_t number) { return std::to_string(number); };
  return text(w.rank) + "/" + text(w.size) + " " + text(w.local_rank) + "/" + text(w.local_size) +
         " " + w.started_by + " " + w.master_addr + ":" + text(w.master_port);
}
std::string error_of(const Variables& variables, std::int64_t parent = 99) {
  return message_of<BadValue>([&] { read(variables, parent); });
}
Variables with(Variables variables, const Variables& others) {
  for (const auto& [name, value] : others)
    if (value == "-") variables.erase(name);
    else variables[name] = value;
  return variables;
}

const Variables torchrun_3_of_4{{"RANK", "3"},
                                {"WORLD_SIZE", "4"},
                                {"LOCAL_RANK", "1"},
                                {"LOCAL_WORLD_SIZE", "2"},
                                {"MASTER_ADDR", "host"},
                                {"MASTER_PORT", "1234"},
                                {"TORCHELASTIC_RUN_ID", "job"},
                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables mpi_1_of_2{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "77"}};
const Variables hydra_1_of_2{
    {"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};
/// The variables belong to the task of a step on two nodes, of which the second has one task.
const Variables srun_2_of_3{{"SLURM_JOB_ID", "8"}, {"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "2"}, {"SLURM_LOCALID", "0"},
                            {"SLURM_NTASKS", "3"}, {"SLURM_NODEID", "1"},
                            {"MASTER_ADDR", "n1"}, {"SLURM_STEP_TASKS_PER_NODE", "2,1"},
                            {"MASTER_PORT", "999"}};
const Variables batch_script{{"SLURM_JOB_ID", "8"},  {"SLURM_PROCID", "0"},
                             {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "4"},
                             {"SLURM_NODEID", "0"},  {"SLURM_NTASKS_PER_NODE", "2"}};
const Variables launched{{"RANK", "0"},
                         {"WORLD_SIZE", "2"},
                         {"LOCAL_RANK", "0"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_PORT", "1234"},
                         {"MASTER_ADDR", "127.0.0.1"},
                         {"IKEBANA_LAUNCHER", "99"},
                         {"IKEBANA_LISTEN_FD", "5"}};

TEST_CASE("world: each way of starting ranks is read") {
  const std::pair<Variables, const char*> rows[] = {
      {{}, "0/1 0/1  :0"},
      {{{"MASTER_ADDR", "host"}}, "0/1 0/1  :0"},
      {torchrun_3_of_4, "3/4 1/2 torchrun host:1234"},
      {launched, "0/2 0/2 launch 127.0.0.1:1234"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}}, "0/1 0/1 RANK and WORLD_SIZE :0"},
      {mpi_1_of_2, "1/2 1/2 mpirun 127.0.0.1:29500"},
      {with(mpi_1_of_2, {{"MASTER_PORT", "7"}}), "1/2 1/2 mpirun 127.0.0.1:7"},
      {with(mpi_1_of_2, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                         {"MASTER_ADDR", "n1"},
                         {"MASTER_PORT", "7"}}),
       "1/2 0/1 mpirun n1:7"},
      {hydra_1_of_2, "1/2 1/2 mpiexec 127.0.0.1:29500"},
      {srun_2_of_3, "2/3 0/1 srun n1:999"},
      {with(srun_2_of_3, {{"SLURM_STEP_TASKS_PER_NODE", "-"}, {"SLURM_TASKS_PER_NODE", "2,1"}}),
       "2/3 0/1 srun n1:999"},
      {with(srun_2_of_3, {{"SLURM_STEP_TASKS_PER_NODE", "-"}, {"SLURM_NTASKS_PER_NODE", "2"}}),
       "2/3 0/2 srun n1:999"},
      {with(srun_2_of_3, {{"SLURM_STEP_TASKS_PER_NODE", "3"},
                          {"SLURM_LOCALID", "2"},
                          {"MASTER_ADDR", "-"},
                          {"MASTER_PORT", "-"}}),
       "2/3 2/3 srun 127.0.0.1:29500"},
      {with(srun_2_of_3, {{"SLURM_NTASKS", "8"}, {"SLURM_STEP_NUM_TASKS", "3"}}),
       "2/3 0/1 srun n1:999"},  // a step of some of the job's tasks
  };
  for (const auto& [variables, expected] : rows) CHECK(read_text(variables) == expected);
  CHECK(read(torchrun_3_of_4).agent_store);
  CHECK(read(torchrun_3_of_4).restart_count == 2);
  CHECK(!read(with(torchrun_3_of_4, {{"TORCHELASTIC_USE_AGENT_STORE", "False"}})).agent_store);
  CHECK(read(torchrun_3_of_4).job == "job");
  CHECK(read(mpi_1_of_2).job == "77");
  CHECK(read(srun_2_of_3).job == "8");
  CHECK(read(launched).listen_fd == 5);
}

TEST_CASE("world: a program that Slurm runs outside of srun is alone, whatever the job has") {
  CHECK(read_text(batch_script) == "0/1 0/1  :0");
  for (const char* own_step : {"4294967290", "4294967291"})  // the number of salloc's shell, and of
                                                             // the script
    CHECK(read_text(with(batch_script, {{"SLURM_STEP_ID", own_step}})) == "0/1 0/1  :0");
  CHECK(contains(error_of(with(batch_script, {{"WORLD_SIZE", "4"}})),
                 "WORLD_SIZE is \"4\" in the environment, but RANK is not set"));
}

TEST_CASE("world: torchrun and launch come before mpirun, and mpirun before srun") {
  const Variables all = with(with(srun_2_of_3, mpi_1_of_2), torchrun_3_of_4);
  CHECK(read_text(all) == "3/4 1/2 torchrun host:1234");
  CHECK(read_text(with(with(srun_2_of_3, mpi_1_of_2), launched)) ==
        "0/2 0/2 launch 127.0.0.1:1234");
  CHECK(read(with(srun_2_of_3, mpi_1_of_2)).started_by == "mpirun");
  CHECK(read(with(srun_2_of_3, hydra_1_of_2)).started_by == "mpiexec");
  // PMI alone is srun's.
  CHECK(read(with(srun_2_of_3, {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}})).started_by == "srun");
  CHECK(read(with(launched, torchrun_3_of_4)).started_by == "torchrun");
}

TEST_CASE("world: slurm's numbers of tasks on nodes are expanded") {
  using ikebana::detail::tasks_per_node;
  using Tasks = std::vector<std::int64_t>;
  CHECK(tasks_per_node("2(x3),1") == Tasks{2, 2, 2, 1});
  CHECK(tasks_per_node("4") == Tasks{4});
  for (const char* bad : {"", "2,", "x", "2(x3", "2(x0)", "2(3)", "2;1", "-1", "2(x9999999999)"})
    CHECK_MESSAGE(!tasks_per_node(bad), bad);
}

struct Wrong {
  Variables variables;
  const char* error;
};
void check_errors(const std::vector<Wrong>& rows) {
  for (const Wrong& row : rows) {
    const std::string text = error_of(row.variables);
    CHECK_MESSAGE((text.starts_with("World: ") && contains(text, row.error)), text, row.error);
  }
}

TEST_CASE("world: torchrun's variables that are missing, no numbers or out of range are named") {
  const Variables& torchrun = torchrun_3_of_4;
  check_errors({
      {{{"RANK", "1"}}, "RANK is \"1\" in the environment, but WORLD_SIZE is not set"},
      {{{"WORLD_SIZE", "2"}}, "WORLD_SIZE is \"2\" in the environment, but RANK is not set"},
      {{{"LOCAL_RANK", "0"}}, "LOCAL_RANK is \"0\" in the environment, but RANK is not set"},
      {with(torchrun, {{"RANK", ""}}), "RANK is set in the environment, but empty"},
      {with(torchrun, {{"RANK", "one"}}), "RANK is \"one\" in the environment; it must be a whole"},
      {with(torchrun, {{"RANK", "1.5"}}), "RANK is \"1.5\""},
      {with(torchrun, {{"RANK", " 1"}}), "RANK is \" 1\""},
      {with(torchrun, {{"RANK", "\x1b[1m"}}), "RANK is \"\\x1b[1m\""},
      {with(torchrun, {{"RANK", "-1"}}), "RANK is \"-1\""},
      {with(torchrun, {{"RANK", "99999999999999999999"}}), "RANK is \"99999999999999999999\""},
      {with(torchrun, {{"RANK", "4"}}), "RANK is \"4\" and WORLD_SIZE is 4"},
      {with(torchrun, {{"WORLD_SIZE", "0"}}), "WORLD_SIZE is \"0\""},
      {with(torchrun, {{"LOCAL_RANK", "2"}}), "LOCAL_RANK is \"2\" and LOCAL_WORLD_SIZE is 2"},
      {with(torchrun, {{"LOCAL_RANK", "-"}}), "but LOCAL_RANK is not set"},
      {with(torchrun, {{"LOCAL_WORLD_SIZE", "5"}}), "LOCAL_WORLD_SIZE is \"5\""},
      {with(torchrun, {{"LOCAL_RANK", "-"}, {"LOCAL_WORLD_SIZE", "-"}}), "choose their devices"},
      {with(torchrun, {{"MASTER_ADDR", "-"}}), "and MASTER_ADDR is not set"},
      {with(torchrun, {{"MASTER_PORT", "-"}}), "and MASTER_PORT is not set"},
      {with(torchrun, {{"MASTER_PORT", "0"}}), "MASTER_PORT is \"0\""},
      {with(torchrun, {{"MASTER_PORT", "65536"}}), "MASTER_PORT is \"65536\""},
      {with(torchrun, {{"TORCHELASTIC_RESTART_COUNT", "x"}}),
       "TORCHELASTIC_RESTART_COUNT is \"x\""},
  });
}

TEST_CASE("world: variables of mpirun and srun that are missing or out of range are named") {
  check_errors({
      {with(mpi_1_of_2, {{"OMPI_COMM_WORLD_SIZE", "-"}}), "but OMPI_COMM_WORLD_SIZE is not set"},
      {with(mpi_1_of_2, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "-"}}),
       "OMPI_COMM_WORLD_LOCAL_SIZE is not"},
      {with(mpi_1_of_2, {{"OMPI_COMM_WORLD_RANK", "2"}}), "OMPI_COMM_WORLD_RANK is \"2\""},
      {with(mpi_1_of_2, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}),
       "there are 2 ranks (mpirun), and MASTER_ADDR is not set in the environment. Set"},
      {with(hydra_1_of_2, {{"PMI_SIZE", "-"}}), "but PMI_SIZE is not set"},
      {with(srun_2_of_3, {{"MASTER_ADDR", "-"}}),
       "there are 3 ranks (srun), and MASTER_ADDR is not"},
      {with(srun_2_of_3, {{"SLURM_STEP_ID", "x"}}), "SLURM_STEP_ID is \"x\""},
      {with(srun_2_of_3, {{"SLURM_NTASKS", "-"}}), "but SLURM_NTASKS is not set"},
      {with(srun_2_of_3, {{"SLURM_NTASKS", "2"}}), "SLURM_PROCID is \"2\" and SLURM_NTASKS is 2"},
      {with(srun_2_of_3, {{"SLURM_LOCALID", "-"}}), "SLURM_LOCALID is not set"},
      {with(srun_2_of_3, {{"SLURM_LOCALID", "1"}}), "SLURM_LOCALID is \"1\""},
      {with(srun_2_of_3, {{"SLURM_NODEID", "2"}}), "SLURM_NODEID is \"2\""},
      {with(srun_2_of_3, {{"SLURM_STEP_TASKS_PER_NODE", "2;1"}}), "TASKS_PER_NODE is \"2;1\""},
      {with(srun_2_of_3, {{"SLURM_STEP_TASKS_PER_NODE", "-"}}), "TASKS_PER_NODE is not set"},
  });
}

TEST_CASE("world: variables that contradict each other are an error") {
  const Variables by_hand{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", "1"}};
  // Exported once, before several ranks were started.
  CHECK(contains(error_of(with(mpi_1_of_2, by_hand)), "but by mpirun this is rank 1 of 2"));
  CHECK(contains(error_of(with(with(mpi_1_of_2, by_hand), {{"WORLD_SIZE", "1"}})), "rank 1 of 2"));
  CHECK(contains(error_of(with(srun_2_of_3, by_hand)), "but by srun this is rank 2 of 3"));
  CHECK(read(with(with(mpi_1_of_2, by_hand), {{"RANK", "1"}})).rank == 1);
  // Each of srun's tasks may start several ranks.
  CHECK(read(with(with(srun_2_of_3, by_hand), {{"RANK", "7"}, {"WORLD_SIZE", "8"}})).rank == 7);
  CHECK(contains(error_of(with(srun_2_of_3, {{"WORLD_SIZE", "4"}})), "but by srun it is 3"));
  CHECK(contains(error_of(with(srun_2_of_3, {{"LOCAL_RANK", "1"}})), "but by srun it is 0"));
  CHECK(read(with(srun_2_of_3, {{"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}})).size == 3);
  CHECK(contains(error_of(launched, /*parent=*/98), "which did not start this process"));
}

TEST_CASE("world: values of one's own are checked") {
  auto error = [](const World& world) { return message_of<BadValue>([&] { world.check(); }); };
  const World good{.rank = 1, .size = 2, .master_addr = "host", .master_port = 1};
  CHECK(error(good).empty());
  CHECK(error(World{}).empty());
  auto changed = [&](auto&& change) {
    World world = good;
    change(world);
    return error(world);
  };
  CHECK(contains(changed([](World& w) { w.rank = 2; }), "rank 2 of 2"));
  CHECK(contains(changed([](World& w) { w.rank = -1; }), "rank -1 of 2"));
  CHECK(contains(changed([](World& w) { w.size = 0; }), "rank 1 of 0"));
  CHECK(contains(changed([](World& w) { w.local_rank = 1; }), "local rank 1 of 1"));
  CHECK(contains(changed([](World& w) { w.local_size = 3; }), "local rank 0 of 3"));
  CHECK(contains(changed([](World& w) { w.master_addr = ""; }), "master_addr is empty"));
  CHECK(contains(changed([](World& w) { w.master_port = 0; }), "master_port is 0"));
  CHECK(contains(changed([](World& w) { w.master_port = 65536; }), "master_port is 65536"));
}

}  // namespace test::ranks::world
