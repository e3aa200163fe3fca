// Tests that each allocation in turn fails in a step that is recorded or replayed. The step is
// undone, and can be made again.
#include "failing.hpp"
#include "text_net.hpp"

#include <ikebana/capture.hpp>

namespace test::failing_captures {

using namespace ikebana;

/// Every allocation of each step fails in turn, from the first step to the first replays. At most
/// `done_without` of them are done without in a step, such as a place in a list of free memory, or
/// the buffer of a sort.
template <class What, class... Policies>
void leaves_steps(int done_without, const Policies&... policies) {
  auto fresh = [&](const auto&... more) {
    torch::manual_seed(7);
    return Trainer{Text(/*sparse=*/false), policies..., more...};
  };
  torch::manual_seed(1);
  const std::pair batch{at::randint(12, {8}, at::kLong), at::randint(4, {8}, at::kLong)};
  // LibTorch, and the search for operators that write to a given tensor, allocate once.
  for (auto warm = fresh(Capture<What>{}); warm.steps() < 6;) warm.step(batch);
  auto unharmed = fresh();
  auto trainer = fresh(Capture<What>{});
  FailingAllocator failing;
  for (int i = 0; i < 6; ++i) {
    CAPTURE(i);
    const StateDict before = trainer.state();
    unharmed.restore(before), trainer.restore(before);  // the random generators
    unharmed.step(batch);
    const StateDict after = unharmed.state();
    int undone = 0;
    trainer.restore(before);
    const int allocations =
        fail_each([&] { counting_on_own_thread([&] { trainer.step(batch); }); },
                  [&](const std::exception_ptr& error) {
                    CHECK(same_state(trainer.state(), error == nullptr ? after : before));
                    if (error == nullptr) return trainer.restore(before);
                    ++undone;
                    CHECK_THROWS_AS(std::rethrow_exception(error), OutOfMemory);
                  });
    CHECK(undone > 25);
    CHECK(allocations - undone <= done_without);
    trainer.step(batch);
    CHECK(same_state(trainer.state(), after));
  }
  CHECK(trainer.template mechanism<Capture<What>>().recordings() > 0);
  CHECK(trainer.template mechanism<Capture<What>>().replays() > 0);
}

TEST_CASE("allocations: a captured step changes nothing, whichever fails") {
  leaves_steps<WholeStep>(1, AdamW{}, Precision<BF16>{}, ClipGradNorm{});
  leaves_steps<EachUnit>(6, AdamW{}, Precision<BF16>{}, ClipGradNorm{});
}

}  // namespace test::failing_captures
