#include <optional>
#include <ranges>

#include "guarantees.hpp"

namespace gpu {

namespace data_parts {

/// Sentences of random tokens.
struct Sentences {
  std::int64_t size() const { return 24; }
  Texts get(std::int64_t index) const {
    auto text = (at::arange(length + 1) * (index + 3)).remainder(tokens);
    return {text.slice(0, 0, length), text.slice(0, 1)};
  }
};

Trace over(bool pin_memory, std::int64_t workers, c10::Device where) {
  DataLoader loader{
      Sentences{},
      {.batch_size = 8, .shuffle = true, .num_workers = workers, .pin_memory = pin_memory}};
  Net model = net();
  model->to(where);
  Trainer trainer{model, adamw};
  Trace trace;
  while (loader.epoch() < 2)
    for (auto& batch : loader) {
      CHECK(batch.input.is_pinned() == (pin_memory && !on_cpu()));
      const NoHostSync none;
      trace.losses.push_back(trainer.step(batch).mean());
    }
  for (auto& loss : trace.losses) loss = loss.cpu();
  trace.parameters = parameters_of(model);
  return trace;
}

}  // namespace data_parts
using namespace data_parts;

TEST_CASE("batches of a loader, pinned or not, train the same") {
  const Deterministic deterministic;
  const Trace plain = over(false, 0, device());
  CHECK(same_bits(over(true, 0, device()), plain));
  CHECK(same_bits(over(true, 2, device()), plain));
  check_near(rounding, plain, over(false, 2, at::kCPU));
}
TEST_CASE("a pinned batch may be overwritten once the step has returned") {
  NOT_RUN_UNLESS(!on_cpu(), "the CPU has no pinned memory");
  const Deterministic deterministic;
  const auto batches = texts(6);
  const Trace expected = trained_on(device(), net(), batches, adamw);
  Texts pinned{batches[0].input.contiguous().pin_memory(), batches[0].target.pin_memory()};
  Net model = net();
  model->to(device());
  Trainer trainer{model, adamw};
  torch::manual_seed(11);
  Trace trace;
  for (const auto& batch : batches) {
    pinned.input.copy_(batch.input), pinned.target.copy_(batch.target);
    trace.losses.push_back(trainer.step(pinned).mean().to(at::kDouble));
    pinned.input.zero_(), pinned.target.zero_();
  }
  for (auto& loss : trace.losses) loss = loss.cpu();
  trace.parameters = parameters_of(model);
  CHECK(same_bits(trace, expected));
}
TEST_CASE("a placement waits for its copies from pinned memory, when it ends") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device tells which copies are on their way");
  const auto batch = texts(1)[0];
  const Texts pinned{batch.input.contiguous().pin_memory(), batch.target.pin_memory()};
  ikebana::DeviceHooks no_policy;
  ikebana::LayoutHooks no_layout;
  synchronize();
  {
    ikebana::detail::Placement placement(device());
    const Texts there = placement.place(no_policy, no_layout, pinned);
    CHECK(copies_in_flight() > 0);
  }
  CHECK(copies_in_flight() == 0);
}
TEST_CASE("a map with a Ragged is placed and cut without a wait") {
  std::map<std::string, std::pair<at::Tensor, ikebana::Ragged>> batch;
  const Tensors samples{at::rand({3, 2}), at::rand({1, 2}), at::rand({4, 2}), at::rand({2, 2})};
  batch["a"] = {at::arange(4), ikebana::Ragged{samples}};
  ikebana::DeviceHooks no_policy;
  ikebana::LayoutHooks no_layout;
  ikebana::detail::Placement placement(device());
  const auto there = placement.place(no_policy, no_layout, batch);
  std::optional<NoHostSync> none(std::in_place);
  const auto last = ikebana::split(there, 2)[1].at("a");
  none.reset();
  CHECK(last.second.values().device() == there.at("a").first.device());
  CHECK(test::same_bits(last.first.cpu(), at::arange(2, 4)));
  CHECK(
      test::same_bits(last.second.offsets().cpu(), at::tensor(std::vector<std::int64_t>{0, 4, 6})));
  CHECK(test::same_bits(last.second[1].cpu(), samples[3]));
}
TEST_CASE("an evaluation and its metrics are those of the CPU") {
  const auto batches = texts(6);
  auto evaluated = [&](c10::Device where) {
    Net model = net(0.3);
    model->to(where);
    Trainer trainer{model, adamw};
    return trainer.evaluate(batches, Accuracy{});
  };
  const Evaluation there = evaluated(device()), here = evaluated(at::kCPU);
  CHECK(there.loss == doctest::Approx(here.loss).epsilon(1e-5));
  CHECK(there.count == here.count);
  CHECK(there["accuracy"] == here["accuracy"]);
}
TEST_CASE("evaluate may be given one pinned buffer again and again") {
  NOT_RUN_UNLESS(!on_cpu(), "the CPU has no pinned memory");
  const auto batches = texts(6);
  Net model = net();
  model->to(device());
  Trainer trainer{model, adamw};
  const double expected = trainer.evaluate(batches).loss;
  Texts pinned{batches[0].input.contiguous().pin_memory(), batches[0].target.pin_memory()};
  auto refilled = batches | std::views::transform([&](const Texts& batch) -> Texts& {
                    pinned.input.copy_(batch.input), pinned.target.copy_(batch.target);
                    return pinned;
                  });
  CHECK(trainer.evaluate(refilled).loss == expected);
}
TEST_CASE("a batch on the device reaches a trainer on the CPU whole") {
  const auto batches = texts();
  std::vector<Texts> there;
  for (const auto& batch : batches)
    there.push_back({batch.input.to(device()), batch.target.to(device())});
  Net model = net();
  Trainer trainer{model, adamw};
  torch::manual_seed(11);
  Trace trace;
  for (const auto& batch : there)
    trace.losses.push_back(trainer.step(batch).mean().to(at::kDouble));
  trace.parameters = parameters_of(model);
  CHECK(same_bits(trace, trained_on(at::kCPU, net(), batches, adamw)));
}
TEST_CASE("fit reads no loss before the epoch ends, and then the same as a loop") {
  const Deterministic deterministic;
  const auto batches = texts(6);
  auto trainer_of = [] {
    Net model = net();
    model->to(device());
    torch::manual_seed(11);
    return Trainer{model, adamw};
  };
  auto by_hand = trainer_of();
  double sum = 0;
  for (const auto& batch : batches) sum += by_hand.step(batch).loss();
  auto trainer = trainer_of();
  std::optional<NoHostSync> none;
  FitOptions<Texts> options{.epochs = 1, .progress = false};
  options.on_step = [&](const Report& report) {
    if (report.step == 0) none.emplace();
    if (report.step == 5) none.reset();
  };
  const History history = trainer.fit(batches, options);
  CHECK(history[0].loss == sum / 6);
  CHECK(test::same_bits(parameters_of(trainer.model()), parameters_of(by_hand.model())));
}
TEST_CASE("On moves the model and batches") {
  const auto type = device().type();
  Net model = net();
  Trainer trainer{model, adamw, On{type}};
  for (const auto& p : model->parameters()) CHECK(p.device() == device());
  const Deterministic deterministic;
  CHECK(same_bits(trained(trainer, texts()), trained_on(device(), net(), texts(), adamw)));
}
TEST_CASE("a device that does not exist is an error, and nothing moves") {
  Net model = net();
  const c10::Device missing = on_cpu() ? c10::Device(at::kCUDA) : device(60);
  const auto message =
      test::message_of<BadValue>([&] { Trainer trainer{model, adamw, On{missing}}; });
  CHECK(test::contains(message, "On: the model cannot be moved to " + missing.str()));
  for (const auto& p : model->parameters()) CHECK(p.is_cpu());
}
TEST_CASE("batches are copied on a stream of their own") {
  NOT_RUN_UNLESS(!on_cpu(), "the CPU has no streams");
  const c10::impl::VirtualGuardImpl streams(device().type());
  const auto batches = bridge::copy_stream(device(), bridge::CopyStream::Batches);
  CHECK(batches != streams.getStream(device()));
  CHECK(batches == bridge::copy_stream(device(), bridge::CopyStream::Batches));
  for (const auto other : {bridge::CopyStream::ToHost, bridge::CopyStream::ToDevice})
    CHECK(batches != bridge::copy_stream(device(), other));
  if (!on_simulated()) return;
  const at::Tensor pinned = at::ones({8}).pin_memory();
  bridge::CopyToDevice copies(device());
  const at::Tensor there = copies(pinned);
  at::ones({8}, device()).add_(1);  // computes on the other stream, which is still to wait for the
                                    // copy
  CHECK(copies_in_flight() == 1);
  copies.finish();
  CHECK(there.sum().item<float>() == 8);
  CHECK(copies_in_flight() == 0);
}

}  // namespace gpu
