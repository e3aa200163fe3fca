// An optimizer of one's own that knows nothing of divisors, loss scales and rejected steps.
#include "test.hpp"

#include "own_momentum.hpp"

namespace test::own_optimizer {

using namespace ikebana;

std::pair<at::Tensor, at::Tensor> rows(double scale = 1) {
  return {at::randn({8, 8}) * scale, at::randn({8, 4})};
}
torch::nn::Linear net(at::ScalarType type = at::kFloat) {
  torch::manual_seed(3);
  torch::nn::Linear linear(8, 4);
  linear->to(type);
  return linear;
}
/// The parameters after five steps.
template <class... Policies>
Tensors trained(double scale, const Policies&... policies) {
  auto linear = net();
  Trainer trainer{linear, MSELoss{}, policies...};
  torch::manual_seed(4);
  for (int i = 0; i < 5; ++i) trainer.step(rows(scale));
  return linear->parameters();
}
/// It moves as the library's optimizer does, with the same policies.
template <class... Policies>
void moves_as_sgd(double scale, const Policies&... policies) {
  const Tensors own = trained(scale, OwnMomentum{}, policies...),
                sgd = trained(scale, SGD{.lr = 0.1, .momentum = 0.9}, policies...);
  CHECK(worst_relative(own, sgd) < 1e-6);
  CHECK(same_bits(own, net()->parameters()) == (scale > 1));
}

TEST_CASE("own optimizer: it is given true gradients, and no rejected step") {
  moves_as_sgd(1, Precision<FP16>{}, Accumulate<4>{});
  moves_as_sgd(1, Precision<FP16>{}, ClipGradNorm{.max_norm = 0.01});
  moves_as_sgd(1e30, Precision<FP16>{}, ClipGradNorm{.max_norm = 0.01});  // all are rejected
}

TEST_CASE("own optimizer: beside another one") {
  const Combined<SGD, OwnMomentum> both{
      .match = named("bias"), .first = {.lr = 0.1, .momentum = 0.9}, .rest = {}};
  const Tensors own = trained(1, both, ClipGradNorm{.max_norm = 0.01}),
                sgd = trained(1, SGD{.lr = 0.1, .momentum = 0.9}, ClipGradNorm{.max_norm = 0.01});
  CHECK(worst_relative(own, sgd) < 1e-6);
}

TEST_CASE("own optimizer: where it throws, the other one's update is undone") {
  using Both = Combined<SGD, OwnMomentum>;
  const Both both{.match = named("bias"), .first = {.momentum = 0.9, .dampening = 0.5}};
  Trainer trainer{net(), MSELoss{}, both}, unharmed{net(), MSELoss{}, both};
  torch::manual_seed(4);
  for (int i = 0; i < 3; ++i) {
    const auto batch = rows();
    const StateDict before = trainer.state();
    trainer.get<Both>().rest.fails_at = 0;
    CHECK(message_of([&] { trainer.step(batch); }) == "in the middle");
    CHECK(same_state(trainer.state(), before));
    trainer.get<Both>() = both;
    trainer.step(batch), unharmed.step(batch);
    CHECK(same_state(trainer.state(), unharmed.state()));
  }
}

TEST_CASE("own optimizer: an update that throws is undone, with its state") {
  Trainer trainer{net(), MSELoss{}, OwnMomentum{}};
  const auto batch = rows();
  for (std::int64_t steps : {0, 1}) {
    const StateDict before = trainer.state();
    for (std::size_t k : {0, 1}) {
      trainer.get<OwnMomentum>().fails_at = k;
      CHECK(message_of([&] { trainer.step(batch); }) == "in the middle");
      CHECK(same_state(trainer.state(), before));
      CHECK(trainer.mechanism<OwnMomentum>().count == steps);
    }
    trainer.get<OwnMomentum>() = {};
    trainer.step(batch);
    CHECK_FALSE(same_state(trainer.state(), before));
  }
}

TEST_CASE("own optimizer: updates that must be rounded are refused") {
  Trainer trainer{net(), MSELoss{}, OwnMomentum{}, Precision<BF16True>{.keep_fp32 = named("bias")}};
  CHECK(contains(message_of<BadValue>([&] { trainer.step(rows()); }), "rounds updates"));
}

}  // namespace test::own_optimizer
