#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include "guarantees.hpp"
#include "own_momentum.hpp"

namespace gpu {
/// The state of optimizers holds NaN while no update uses it, and an update uses that of one
/// parameter at a time.
struct HiddenState {
  using axis = ikebana::axis::offload;
};
}  // namespace gpu

template <>
struct ikebana::Mechanism<gpu::HiddenState> : ikebana::OffloadHooks, ikebana::StateStorage {
  gpu::HiddenState values;
  std::vector<std::pair<at::Tensor, at::Tensor>> hidden;  // each, and its values
  explicit Mechanism(gpu::HiddenState v) : values(v) {}

  ikebana::StateStorage* state_storage() { return this; }
  std::int64_t window_bytes() const override { return 1; }
  at::Tensor place_state(const at::Tensor& state) override {
    hidden.emplace_back(at::full_like(state, NAN), state);
    return hidden.back().first;
  }
  void begin_window(const Tensors& state) noexcept override {
    for (auto& [tensor, value] : in(state)) tensor.copy_(value);
  }
  void end_window(const Tensors& state) noexcept override {
    for (auto& [tensor, value] : in(state)) value.copy_(tensor), tensor.fill_(NAN);
  }
  std::vector<std::pair<at::Tensor, at::Tensor>> in(const Tensors& state) const {
    auto all = hidden;
    std::erase_if(all, [&](const auto& one) {
      return std::ranges::none_of(state, [&](const auto& t) { return t.is_same(one.first); });
    });
    CHECK(all.size() == state.size());
    return all;
  }
};

namespace gpu {

namespace optimizers_parts {

/// Returns whether everything in `before` is unchanged in `after`. Moments may have been made
/// since.
bool keeps(const StateDict& before, StateDict after) {
  std::erase_if(after, [&](const auto& item) { return !before.count(item.first); });
  return test::same_state(before, after);
}
/// Checks that an update on the device equals the one on the CPU, and that one that the device
/// rejects, be it the first or a later one, changes nothing. A training with rejected steps has the
/// bits of a training without them.
template <class Optimizer>
void check(Apart limit, Optimizer optimizer) {
  follows_the_cpu(limit, optimizer, Changed{});
  const Deterministic deterministic;
  bool broken = false;
  const Changed objective{[&](Loss& loss) {
    if (broken) loss.sum = loss.sum * std::nan("");
  }};
  auto fresh = [&] {
    Net model = net();
    model->to(device());
    return Trainer{model, optimizer, objective};
  };
  auto trainer = fresh(), unharmed = fresh();
  const auto batches = texts();
  for (const char* which : {"first", "later"}) {
    CAPTURE(which);
    const auto before = kept_state(trainer);
    broken = true;
    const auto message = test::message_of<NonFinite>([&] {
      for (int i = 0; i < 3; ++i) trainer.step(batches[0]);
    });
    CHECK(test::contains(message, "the loss is not finite"));
    CHECK(keeps(before, kept_state(trainer)));
    broken = false;
    auto next = [&] { return test::message_of<NonFinite>([&] { trainer.step(batches[0]); }); };
    while (!next().empty()) continue;  // the error of the last broken one
    unharmed.step(batches[0]);
    for (auto* t : {&trainer, &unharmed})
      for (const auto& batch : batches) t->step(batch);
    CHECK(test::same_state(kept_state(trainer), kept_state(unharmed)));
    CHECK_FALSE(keeps(before, kept_state(trainer)));
  }
}
/// Returns the parameters after steps of which the device rejects every second one, beginning with
/// the first.
template <class... Words>
Tensors after_rejected_steps(const Words&... words) {
  bool broken = false;
  const Changed objective{[&](Loss& loss) {
    if (broken) loss.sum = loss.sum * std::nan("");
  }};
  Net model = net();
  model->to(device());
  Trainer trainer{model, objective, words...};
  for (const auto& batch : texts()) {
    auto step = [&] { return test::message_of<NonFinite>([&] { trainer.step(batch); }); };
    broken = true;
    step();
    broken = false;
    while (!step().empty()) continue;  // the error of the broken one
  }
  return parameters_of(model);
}
template <class Optimizer>
void same_with_hidden_state(Optimizer optimizer) {
  const Deterministic deterministic;
  CHECK(test::same_bits(after_rejected_steps(optimizer, HiddenState{}),
                        after_rejected_steps(optimizer)));
}

}  // namespace optimizers_parts
using namespace optimizers_parts;

TEST_CASE("AdamW") { check(rounding, AdamW{.lr = 1e-2}); }
TEST_CASE("Adam with amsgrad") {
  check(rounding, Adam{.lr = 1e-2, .weight_decay = 0.1, .amsgrad = true});
}
TEST_CASE("SGD") {
  check(rounding, SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 1e-3, .nesterov = true});
  check(rounding, SGD{.lr = 0.1});
}
TEST_CASE("Adagrad") { check(rounding, Adagrad{.lr = 1e-2}); }
TEST_CASE("Adafactor") { check(rounding, Adafactor{}); }
TEST_CASE("AdamW8bit") { check({1e-3, 0.1}, AdamW8bit{.lr = 1e-2, .min_8bit_size = 1024}); }
TEST_CASE("Lion") { check({1e-3, 0.2}, Lion{.lr = 1e-3}); }
TEST_CASE("Muon") { check({1e-3, 0.2}, Muon{.lr = 1e-2}); }

TEST_CASE("an optimizer that declares nothing") { check(rounding, test::OwnMomentum{.lr = 0.1}); }
TEST_CASE("LibTorchOptimizer") {
  check(rounding, LibTorchOptimizer<torch::optim::RMSprop>{
                      torch::optim::RMSpropOptions(1e-3).momentum(0.5).centered(true)});
}
TEST_CASE("Combined") {
  using RMSprop = LibTorchOptimizer<torch::optim::RMSprop>;
  check({1e-3, 0.2},
        Combined<test::OwnMomentum, RMSprop>{.match = named("*norm*"),
                                             .first = {.lr = 0.1},
                                             .rest = {torch::optim::RMSpropOptions(1e-3)}});
}
TEST_CASE("an optimizer that declares nothing keeps a value changed after a rejected step") {
  Net model = net();
  model->to(device());
  Trainer trainer{model, test::OwnMomentum{}, Precision<FP16>{.init_scale = 1e30}};
  const auto batches = texts(2);
  CHECK(trainer.step(batches[0]).skipped());
  trainer.get<test::OwnMomentum>().lr = 0.25;
  trainer.step(batches[1]);
  CHECK(trainer.mechanism<test::OwnMomentum>().lr == 0.25);
}
TEST_CASE("state that is stored apart is used in windows, also where an update is rejected") {
  same_with_hidden_state(AdamW{.lr = 1e-2, .groups = {no_decay()}});
  same_with_hidden_state(Lion{.lr = 1e-3});
  same_with_hidden_state(Adafactor{});
  same_with_hidden_state(Combined<Muon, SGD>{.rest = {.lr = 0.1, .momentum = 0.9}});
}
TEST_CASE("SparseAdam") {
  const auto batches = texts();
  const SparseAdam adam{.lr = 1e-2};
  const Trace there = trained_on(device(), net(0, /*sparse=*/true), batches, adam);
  const Trace here = trained_on(at::kCPU, net(0, /*sparse=*/true), batches, adam);
  check_near(rounding, there, here);
}
TEST_CASE("dampening: the first update of SGD's buffer has none, also after a skipped one") {
  const SGD dampened{.lr = 0.1, .momentum = 0.9, .dampening = 0.5};
  const Precision<FP16> overflows{.init_scale = 1e12};
  const auto batches = texts(40);
  auto run = [&](c10::Device where) {
    Net model = net();
    model->to(where);
    Trainer trainer{model, dampened, overflows};
    torch::manual_seed(11);
    int skipped = 0;
    for (const auto& batch : batches) skipped += trainer.step(batch).skipped();
    CHECK(skipped > 1);
    CHECK(skipped < 39);
    return Trace{{at::zeros({1})}, parameters_of(model)};
  };
  check_near({1, 0.05}, run(device()), run(at::kCPU));
}

}  // namespace gpu
