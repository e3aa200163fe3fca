// Tests capture and replay of random number generators and autocast.
#include "test.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <algorithm>
#include <ikebana/bridge/rng_autocast_state.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "autocast_state.hpp"

using namespace ikebana;

namespace test::rng_autocast_state {

namespace autocast = at::autocast;
const c10::Device cpu(c10::kCPU);

at::Tensor dropped() { return torch::dropout(torch::ones({64, 64}), 0.5, true); }

/// A simulated accelerator that has a random number generator and nothing else.
struct FakeDevice : at::PrivateUse1HooksInterface {
  at::Generator generator = at::detail::createCPUGenerator(1);
  void init() const override {}
  bool hasPrimaryContext(c10::DeviceIndex) const override { return false; }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex) const override { return generator; }
};

TEST_CASE(
    "rng and autocast state: a replay draws the same numbers, and the outer sequence goes on") {
  for (bool weight_cache : {false, true}) {
    torch::manual_seed(11);
    const auto expected = std::vector<at::Tensor>{dropped(), torch::randn({3}), dropped()};

    torch::manual_seed(11);
    const auto captured = bridge::RngAutocastState::capture(cpu);
    std::vector<at::Tensor> outside{dropped(),
                                    torch::randn({3})};  // the generator caches one normal
    std::vector<at::Tensor> replayed;
    for (int repeat = 0; repeat < 2; ++repeat) {
      bridge::RngAutocastState::Replay replay(captured, weight_cache);
      replayed = {dropped(), torch::randn({3})};
    }
    outside.push_back(dropped());
    CHECK(test::same_bits(outside, expected));
    CHECK(test::same_bits(replayed[0], expected[0]));
    CHECK(test::same_bits(replayed[1], expected[1]));
  }
}

TEST_CASE("rng and autocast state: a replay that ends by an exception restores everything") {
  torch::manual_seed(5);
  const auto captured = bridge::RngAutocastState::capture(cpu);
  dropped();
  auto generator = at::globalContext().defaultGenerator(cpu);
  const auto before = generator.get_state();
  const State state;
  CHECK_THROWS_AS(
      [&] {
        bridge::RngAutocastState::Replay replay(captured, false);
        bridge::AutocastScope on(at::kCPU, at::kHalf);
        dropped();
        throw std::runtime_error("inside the replay");
      }(),
      std::runtime_error);
  CHECK(test::same_bits(generator.get_state(), before));
  CHECK(State() == state);
  CHECK(depth() == 0);
}

TEST_CASE("rng and autocast state: replays nest") {
  torch::manual_seed(1);
  const auto first = bridge::RngAutocastState::capture(cpu);
  const auto a = dropped();
  const auto second = bridge::RngAutocastState::capture(cpu);
  const auto b = dropped();
  {
    bridge::RngAutocastState::Replay outer(first, true);
    {
      bridge::RngAutocastState::Replay inner(second, true);
      CHECK(test::same_bits(dropped(), b));
    }
    CHECK(test::same_bits(dropped(), a));
    CHECK(test::same_bits(dropped(), b));
  }
}

TEST_CASE("rng and autocast state: autocast is replayed, and the previous state restored") {
  const State plain;
  std::unique_ptr<bridge::RngAutocastState> captured;
  {
    bridge::AutocastScope on(at::kCPU, at::kHalf);
    captured = std::make_unique<bridge::RngAutocastState>(bridge::RngAutocastState::capture(cpu));
  }
  CHECK(State() == plain);
  auto x = torch::randn({4, 4});
  {
    bridge::RngAutocastState::Replay replay(*captured, true);
    CHECK(State() == State{true, at::kHalf, true});
    CHECK((at::mm(x, x).scalar_type() == at::kHalf));
  }
  CHECK(State() == plain);
  {
    bridge::RngAutocastState::Replay replay(*captured, false);
    CHECK(State() == State{true, at::kHalf, false});
  }
  const auto off = bridge::RngAutocastState::capture(cpu);
  bridge::AutocastScope on(at::kCPU, at::kBFloat16);
  const State outside;
  {
    bridge::RngAutocastState::Replay replay(off, true);
    CHECK_FALSE(State().enabled);
    CHECK((at::mm(x, x).scalar_type() == at::kFloat));
  }
  CHECK(State() == outside);
}

TEST_CASE("rng and autocast state: a capture without the weight cache replays without it") {
  std::unique_ptr<bridge::RngAutocastState> captured;
  {
    bridge::NoWeightCacheScope none;
    captured = std::make_unique<bridge::RngAutocastState>(bridge::RngAutocastState::capture(cpu));
  }
  CHECK(State().cache);
  bridge::RngAutocastState::Replay replay(*captured, true);
  CHECK_FALSE(State().cache);
}

TEST_CASE("rng and autocast state: a capture of another thread can be replayed on this one") {
  torch::manual_seed(21);
  std::unique_ptr<bridge::RngAutocastState> captured;
  at::Tensor expected;
  std::thread([&] {
    bridge::AutocastScope on(at::kCPU, at::kBFloat16);
    captured = std::make_unique<bridge::RngAutocastState>(bridge::RngAutocastState::capture(cpu));
    expected = dropped();
  }).join();
  CHECK_FALSE(State().enabled);
  bridge::RngAutocastState::Replay replay(*captured, false);
  CHECK(State() == State{true, at::kBFloat16, false});
  CHECK(test::same_bits(dropped(), expected));
}

TEST_CASE("rng and autocast state: a device without generator and autocast adds no state") {
  torch::manual_seed(2);
  const auto captured = bridge::RngAutocastState::capture(c10::Device(c10::kMeta));
  const auto expected = dropped();
  bridge::RngAutocastState::Replay replay(captured, true);
  CHECK(test::same_bits(dropped(), expected));
}

TEST_CASE(
    "rng and autocast state: an accelerator's generator and autocast are replayed with the CPU's") {
  static FakeDevice hooks;
  if (!at::isPrivateUse1HooksRegistered()) at::RegisterPrivateUse1HooksInterface(&hooks);
  constexpr auto type = c10::kPrivateUse1;
  auto draw = [&] {
    return std::vector<at::Tensor>{at::rand({5}), at::rand({5}, hooks.generator)};
  };
  std::optional<bridge::RngAutocastState> captured;
  std::vector<at::Tensor> expected;
  {
    bridge::AutocastScope on(type, at::kHalf);
    captured = bridge::RngAutocastState::capture(c10::Device(type, 0));
    expected = draw();
  }
  const auto before = hooks.generator.get_state();
  {
    bridge::RngAutocastState::Replay replay(*captured, true);
    CHECK(autocast::is_autocast_enabled(type));
    CHECK((autocast::get_autocast_dtype(type) == at::kHalf));
    CHECK_FALSE(autocast::is_autocast_enabled(at::kCPU));
    CHECK(test::same_bits(draw(), expected));
  }
  CHECK_FALSE(autocast::is_autocast_enabled(type));
  CHECK(test::same_bits(hooks.generator.get_state(), before));
}

TEST_CASE("generator state: each draw moves the position, and a restored state has its own") {
  torch::manual_seed(9);
  bridge::GeneratorState state(cpu);
  std::vector<bridge::GeneratorPosition> seen{state.position()};
  CHECK(state.position_now() == seen[0]);
  auto draw_normal = [](at::ScalarType type) { torch::randn({1}, type); };  // every second is kept
  for (int i = 0; i < 700; ++i) {
    if (i % 3 == 0) draw_normal(at::kDouble);
    else if (i % 3 == 1) draw_normal(at::kFloat);
    else torch::rand({1});
    const auto now = state.position_now();
    CHECK(std::find(seen.begin(), seen.end(), now) == seen.end());
    seen.push_back(now);
  }
  CHECK(state.position() == seen[0]);
  state.restore();
  CHECK(state.position_now() == seen[0]);
  const auto expected = torch::randn({5}, at::kDouble);
  state.capture();
  CHECK(state.position() == state.position_now());
  state.restore();
  torch::manual_seed(9);
  CHECK(state.position_now() == seen[0]);
  CHECK(test::same_bits(torch::randn({5}, at::kDouble), expected));
}

TEST_CASE("rng and autocast state: a replay of chosen generators leaves the other as it is") {
  const auto captured = bridge::RngAutocastState::capture(cpu);
  const auto first = dropped();
  const auto here = captured.positions_now();
  {
    bridge::RngAutocastState::Replay replay(captured, false, {.cpu = false, .device = true});
    CHECK_FALSE(captured.positions_now().differ(here).any());
    dropped();
  }
  CHECK(captured.positions_now().differ(here).cpu);
  bridge::RngAutocastState::Replay replay(captured, false, {.cpu = true, .device = false});
  CHECK(test::same_bits(dropped(), first));
}

TEST_CASE("rng and autocast state: captures on several threads have their own autocast") {
  std::vector<int> right(4);
  std::vector<std::thread> running;
  for (int t = 0; t < 4; ++t)
    running.emplace_back([&, t] {
      const auto dtype = t % 2 ? at::kHalf : at::kBFloat16;
      for (int round = 0; round < 50; ++round) {
        bridge::AutocastScope on(at::kCPU, dtype);
        const auto captured = bridge::RngAutocastState::capture(cpu);
        bridge::AutocastScope off(at::kCPU, at::ScalarType::Undefined);
        bridge::RngAutocastState::Replay replay(captured, false);
        right[t] += State() == State{true, dtype, false};
      }
    });
  for (auto& thread : running) thread.join();
  for (int count : right) CHECK(count == 50);
}

}  // namespace test::rng_autocast_state
