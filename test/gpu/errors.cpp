#include "guarantees.hpp"

namespace gpu {

namespace errors_parts {

Net there() {
  Net model = net();
  model->to(device());
  return model;
}

}  // namespace errors_parts
using namespace errors_parts;

TEST_CASE("what makes the host wait is caught: an item() in the loss") {
  NOT_RUN_UNLESS(!on_cpu(), "the host does not wait for a CPU");
  Net model = there();
  bool waits = false;
  Trainer trainer{model, adamw, Changed{[&](Loss& loss) {
                    if (waits) loss.sum.item<double>();
                  }}};
  const auto batches = texts();
  trained(trainer, batches);
  waits = true;
  const auto before = parameters_of(model);
  const auto message = test::message_of([&] { trained(trainer, batches); });
  CHECK(test::contains(message, "synchroniz"));
  CHECK(test::same_bits(parameters_of(model), before));
  waits = false;
  trained(trainer, batches);
  CHECK_FALSE(test::same_bits(parameters_of(model), before));
}
TEST_CASE("a loss that is not finite updates nothing, and a later step throws") {
  Net model = there();
  bool broken = false;
  Trainer trainer{model, adamw, EMA{}, Changed{[&](Loss& loss) {
                    if (broken) loss.sum = loss.sum * std::nan("");
                  }}};
  const auto batches = texts();
  trained(trainer, batches);
  broken = true;
  const auto before = kept_state(trainer);
  int returned = 0;
  const auto message = test::message_of<NonFinite>([&] {
    for (int i = 0; i < 4; ++i) {
      Report report = trainer.step(batches[0]);
      CHECK_THROWS_AS(report.loss(), NonFinite);
      ++returned;
    }
  });
  CHECK(test::contains(message, "the loss is not finite; nothing was updated"));
  CHECK(returned >= (on_cpu() ? 0 : 1));
  CHECK(returned <= (on_cpu() ? 0 : 2));
  CHECK(test::same_state(kept_state(trainer), before));
  broken = false;
  test::message_of<NonFinite>([&] { trainer.step(batches[0]); });  // throws the error of the last
                                                                   // broken one
  const auto loss = trainer.step(batches[0]).loss();
  CHECK(std::isfinite(loss));
  CHECK_FALSE(test::same_state(kept_state(trainer), before));
}
TEST_CASE("a flag that the device has not written yet is waited for, not read") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device is late on demand");
  set_false_queries(3);
  for (bool set : {false, true}) {
    ikebana::detail::DeferredCheck deferred;
    int raised = 0;
    deferred.expect_zero(at::full({}, set ? 1.0f : 0.0f, device()), [&] { ++raised; });
    CHECK(copies_in_flight() == 1);
    deferred.check();  // a flag of the last step may still be on its way
    CHECK(copies_in_flight() == 1);
    deferred.check();
    CHECK(copies_in_flight() == 0);
    CHECK(raised == (set ? 1 : 0));
  }
  set_false_queries(1);
}
TEST_CASE("of several ranks each reads a flag in the same step, however early it arrives") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device is late on demand");
  set_false_queries(0);
  for (bool alone : {true, false}) {
    ikebana::detail::DeferredCheck deferred;
    std::vector<int> raised;
    for (int step = 0; step < 4; ++step) {  // two flags in each, the last of a step that is undone
      deferred.check(alone);
      for (int flags = 0; flags < 2; ++flags)
        deferred.expect_zero(at::ones({}, device()), [&raised, step] { raised.push_back(step); });
      if (step == 3) deferred.undo();
      const int read = alone ? step : std::max(step - 1, 0);  // all flags of so many steps
      CHECK(std::ssize(raised) == 2 * read);
    }
    for (int i = 0; i < 3; ++i) deferred.check(alone);
    CHECK(raised == std::vector<int>{0, 0, 1, 1, 2, 2});
  }
  set_false_queries(1);
}
TEST_CASE("a count before forward that is not the loss's is an error") {
  Trainer trainer{there(), adamw, Changed{.more_items = 1}};
  const auto batches = texts();
  int returned = 0;
  const auto message = test::message_of<BadModel>([&] {
    for (const auto& batch : batches) trainer.step(batch), ++returned;
  });
  CHECK(test::contains(message, "count(batch) returns another number"));
  CHECK(returned >= (on_cpu() ? 0 : 1));
  CHECK(returned <= (on_cpu() ? 0 : 2));
}
TEST_CASE("a tensor that does not fit: nothing changes, and the next step works") {
  const Deterministic deterministic;
  const auto batches = texts();
  Net model = there();
  bool too_large = false;
  const std::int64_t elements = std::int64_t{1} << 46;
  const Changed objective{[&](Loss& loss) {
    if (too_large) loss.sum = loss.sum + at::ones({elements}, loss.sum.options())[0];
  }};
  Trainer trainer{model, adamw, Precision<BF16Weights>{}, Checkpoint<Full>{}, objective};
  torch::manual_seed(11);
  trainer.step(batches[0]);
  trainer.step(batches[1]);
  const auto before = trainer.state();
  too_large = true;
  const auto message = test::message_of<OutOfMemory>([&] { trainer.step(batches[2]); });
  CHECK(test::contains(message, "memory"));
  CHECK(test::contains(message, "Nothing was updated."));
  CHECK(test::contains(message, "step 2"));
  too_large = false;
  trainer.restore(before);
  Trace after;
  for (int i = 2; i < 4; ++i)
    after.losses.push_back(trainer.step(batches[static_cast<std::size_t>(i)]).mean().cpu());
  Net other = there();
  Trainer unbroken{other, adamw, Precision<BF16Weights>{}, Checkpoint<Full>{}, objective};
  torch::manual_seed(11);
  Trace expected;
  for (const auto& batch : batches) expected.losses.push_back(unbroken.step(batch).mean().cpu());
  expected.losses.erase(expected.losses.begin(), expected.losses.begin() + 2);
  CHECK(same_bits(after, expected));
}

}  // namespace gpu
