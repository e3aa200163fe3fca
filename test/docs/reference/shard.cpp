// Examples of the reference: several ranks. They run alone, as a program that nothing has started
// as a rank.
#include <ikebana/observe.hpp>
#include <ikebana/shard.hpp>

#include "policies.hpp"
#include "state/folder.hpp"

namespace test::reference::shard {

TEST_CASE_FIXTURE(Small, "reference: data parallelism") {
  // example: Shard, Shard<DDP>
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Shard<DDP>{.bucket_cap_mb = 8}};
  trainer.step(batch);  // this rank's samples; gradients are summed over ranks
  // end
  CHECK(trainer.world_size() == 1);

  const bool is_asked = true;
  // example: StopWish
  for (bool ends = false; !ends;) {  // on all ranks after the same step
    trainer.step(batch);
    ends = trainer.agree_to_stop(is_asked ? StopWish::Asked : StopWish::No) != StopWish::No;
  }
  // end
  CHECK(trainer.steps() == 3);  // the second step of the loop has told the others
}

TEST_CASE_FIXTURE(Small, "reference: fully sharded") {
  // example: Shard<FSDP>, World, ProcessGroup, ProcessGroupOptions, Backend
  World world = World::from_environment();  // started by launch, torchrun, mpirun or srun
  ProcessGroupOptions options{.timeout = std::chrono::minutes(5), .backend = Backend::Gloo};
  ProcessGroup group(world, options);
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                  Shard<FSDP>{.process_group = group}};
  // end
  CHECK((world.size == 1 && group.rank() == 0));
  CHECK(trainer.restore_model()->size() == 3);
}

/// Writes the files of two ranks, of which rank 1 did not come to exchange 2.
void write_records(const std::filesystem::path& folder) {
  const RecordedExchange first{
      .number = 1, .kind = "all_gather", .purpose = "the gather of unit `first`", .ended = 2.0};
  RecordedExchange second = first;
  second.number = 2, second.ended = {};
  for (const std::int64_t rank : {0, 1}) {
    FlightRecord record{.rank = rank, .ranks = 2, .exchanges = {first}};
    if (rank == 0) record.exchanges.push_back(second);
    ikebana::detail::write_file(folder / ikebana::detail::flight_file(1, rank), record.csv());
  }
}

TEST_CASE_FIXTURE(Small, "reference: the exchanges of a rank") {
  const Folder folder;
  write_records(folder.path);
  Printed printed;
  World world = World::from_environment();
  // example: FlightRecord, RecordedExchange
  ProcessGroup group(world, {.flight_recorder = "run7/flight"});
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{}, Shard<FSDP>{.process_group = group}};
  FlightRecord record = trainer.mechanism<Shard<FSDP>>().flight_record();  // in any thread
  for (const RecordedExchange& one : record.exchanges)
    if (!one.ended) std::cout << one.number << ' ' << one.purpose << " is pending\n";
  // end
  CHECK(record.ranks == 1);
  CHECK(trainer.restore_model()->size() == 3);

  // example: compare_flight_records, FlightComparison, read_flight_record
  FlightComparison found = compare_flight_records(folder.path);  // after a failure
  std::cout << found << '\n';
  FlightRecord of_rank = read_flight_record(folder / "flight_recorder.rank0.csv");
  std::cout << of_rank.table();
  // end
  CHECK(found.behind == std::vector<std::int64_t>{1});
  CHECK(contains(printed.text(), "rank 1 did not begin exchange 2, the gather of unit `first`"));
}

TEST_CASE_FIXTURE(Small, "reference: the times of ranks") {
  Printed printed;
  // example: Observe<RankTimes>, rank_times, RankTimesSummary, RankTime
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Shard<DDP>{}, Observe<RankTimes>{}};
  for (int i = 0; i < 6; ++i) trainer.step(batch);
  RankTimesSummary times = rank_times(trainer);  // on all ranks
  if (trainer.rank() == 0) std::cout << times;
  for (const RankTime& one : times.ranks) std::cout << one.waiting << " s per step\n";
  // end
  CHECK(times.steps == 3);
  CHECK(contains(printed.text(), "no rank is slower"));
}

TEST_CASE("reference: a store of the ranks") {
  // example: make_store, finish_store
  World world = World::from_environment();
  auto store = make_store(world, std::chrono::minutes(5));  // on all ranks
  if (world.rank == 0) store->set("run", "a name that all ranks use");
  std::string run = store->get_to_str("run");
  finish_store(*store, world, std::chrono::minutes(5));  // before the process ends
  // end
  CHECK(run == "a name that all ranks use");
}

TEST_CASE("reference: other ways to shard") {
  {
    // example: Shard<ZeRO1>
    Shard<ZeRO1> optimizer_state{.reduce_dtype = torch::kFloat};
    // end
    CHECK((*optimizer_state.reduce_dtype == at::kFloat));
  }
  {
    // example: Shard<ZeRO2>
    Shard<ZeRO2> gradients_too{.reduce_dtype = torch::kFloat};
    // end
    CHECK((*gradients_too.reduce_dtype == at::kFloat));
  }
  {
    // example: Shard<HSDP<N>>, HSDP
    Shard<HSDP<8>> of_each_host{.reshard_after_forward = false};  // 8 ranks have one copy
    // end
    CHECK(of_each_host.ranks_per_copy == 8);
  }
}

int train_on(int argc, char** argv, std::int64_t ranks) {
  // example: launch
  return launch(argc, argv, ranks, [](const World& world) {  // in `main`
    std::cout << "rank " << world.rank << " of " << world.size << '\n';
    return 0;
  });
  // end
}

TEST_CASE("reference: launch") {
  std::string name = "train";
  char* arguments[] = {name.data(), nullptr};
  Printed printed;
  const int code = train_on(1, arguments, 1);
  CHECK(printed.text() == "rank 0 of 1\n");
  CHECK(code == 0);
}

}  // namespace test::reference::shard
