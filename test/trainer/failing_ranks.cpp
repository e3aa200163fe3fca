// On two ranks, each allocation of one rank's step in turn fails: no rank makes the step, and all
// can repeat it.
#include <ikebana/shard.hpp>

#include "failing.hpp"

namespace test::failing_ranks {

using namespace ikebana;

struct Rows {
  at::Tensor input, target;
};
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(16, 16));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(16));
  at::Tensor forward(const at::Tensor& x) { return x + norm(layer(x)); }
};
TORCH_MODULE(Block);
struct NetImpl : torch::nn::Module {
  using units = Units<Block>;
  Block first = register_module("first", Block()), second = register_module("second", Block());
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor x = run(second, run(first, batch.input));
    return {at::mse_loss(x, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Net);

/// Makes a step of both ranks in which one allocation of rank 1 fails: neither rank makes the step.
/// Returns false if there is no such allocation any more, and both have made the step.
template <class Trainer>
bool fails_on_both(Trainer& trainer, const Rows& batch, int failing) {
  const StateDict before = trainer.state();
  if (trainer.rank() == 1) countdown = failing;
  bool threw = false;
  try {
    trainer.step(batch);
  } catch (const std::exception&) {
    countdown = 0;
    threw = true;
  }
  countdown = 0;
  CHECK(trainer.steps() == (threw ? 1 : 2));
  if (threw) CHECK(same_state(trainer.state(), before));
  else trainer.restore(before);
  trainer.with_full_weights([](Net&) {});  // the ranks meet for it, and make the same calls
  return threw;
}
/// Counts the allocations that a step of this rank makes on its own thread.
template <class Trainer>
int allocations(Trainer& trainer, const Rows& batch) {
  constexpr int many = 1 << 30;
  const StateDict before = trainer.state();
  countdown = many;
  trainer.step(batch);
  const int made = many - std::exchange(countdown, 0);
  trainer.restore(before);
  return made;
}
/// The last ones of all: after the ranks have agreed on the update, none may fail.
template <class How>
void fails_everywhere() {
  std::vector<Net> models{Net(), Net()};
  const Rows all{at::randn({8, 16}), at::randn({8, 16})};
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> ranks;
  for (std::int64_t r = 0; r < 2; ++r)
    ranks.emplace_back([&, r] {
      const Rows batch{all.input.narrow(0, 4 * r, 4), all.target.narrow(0, 4 * r, 4)};
      Trainer trainer{models[static_cast<std::size_t>(r)], AdamW{}, ClipGradNorm{},
                      Shard<How>{.process_group = ProcessGroup(
                                     store, r, 2, {.timeout = std::chrono::minutes(1)})}};
      trainer.step(batch);
      allocations(trainer, batch);  // the second step still makes moments, and the like
      const at::Tensor mine = at::scalar_tensor(allocations(trainer, batch), at::kLong);
      const int made =
          trainer.ranks().data().sum(r == 1 ? mine : at::zeros_like(mine)).template item<int>();
      CHECK(made > 500);
      int failed = 0;
      const int stride = is_thorough() ? 1 : 4;
      for (int k = 1; k < made + 20; k += k < made - 150 ? 13 * stride : stride)
        failed += fails_on_both(trainer, batch, k);
      CHECK(failed > 25);
    });
  for (std::thread& rank : ranks) rank.join();
}
TEST_CASE("allocations: one that fails on one of two ranks undoes the step on both") {
  const FailingAllocator tensors;
  fails_everywhere<DDP>();
  fails_everywhere<FSDP>();
  fails_everywhere<HSDP<1>>();  // two copies
}

}  // namespace test::failing_ranks
