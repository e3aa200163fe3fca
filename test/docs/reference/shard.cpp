// Examples of the reference: several ranks. They run alone, as a program that nothing has started
// as a rank.
#include <ikebana/shard.hpp>

#include "policies.hpp"

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
