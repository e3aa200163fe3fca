// Tests a user's own optimizer that knows nothing of divisors, loss scales and rejected steps.
#include "test.hpp"

#include "own_momentum.hpp"

namespace test::own_optimizer {

/// Its policy has neither lr nor groups. Its state is computed from the weights.
struct Plain {
  using axis = ikebana::axis::optimizer;
  double step = 0.1;
  bool grows = false, fails = false, resizes = false, early = false;
  std::shared_ptr<std::string> asked = std::make_shared<std::string>();
};

}  // namespace test::own_optimizer

template <>
struct ikebana::Mechanism<test::own_optimizer::Plain> : ikebana::OptimizerHooks {
  test::own_optimizer::Plain values;
  std::vector<at::Tensor> history;
  at::Tensor former = at::zeros({2});
  double lr = 0;

  explicit Mechanism(test::own_optimizer::Plain v) : values(std::move(v)) {}
  double base_lr() const { return values.step; }
  bool has_updated() const { return values.early; }
  void attach(c10::Device, const UnitTable&) { *values.asked += "a"; }
  template <class Rate>
  void before_backward(const LossValue&, std::size_t, const Rate&) {
    *values.asked += "b";
  }
  template <class Rate>
  void prepare(const Masters&, StepGradients&, const Rate& rate) {
    lr = rate(values.step);
  }
  void update(const Masters& masters, StepGradients& gradients) {
    if (values.grows) history.push_back(masters.values[0] * 2);
    if (values.resizes) former.resize_({5}).fill_(7);
    for (std::size_t k = 0; k < gradients.indices.size(); ++k)
      masters.values[gradients.indices[k]].sub_(gradients.values[k] * lr);
    if (values.fails) throw std::runtime_error("at the end");
  }
  void after_update(const Masters&, const StepGradients&) noexcept { *values.asked += "u"; }
  void end_epoch(const Epoch&) { *values.asked += "e"; }
  void state(Archive& archive, const Masters&) {
    archive.tensor("former", former);
    for (std::size_t i = 0; i < history.size(); ++i)
      archive.tensor("history." + std::to_string(i), history[i]);
  }
};

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
/// Returns the parameters after five steps.
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

TEST_CASE("own optimizer: it is asked the same hooks alone, in Combined and InBackward") {
  auto asked = [](const auto& policy, const Plain& plain) {
    auto linear = net();
    {
      Trainer trainer{linear, MSELoss{}, policy};
      torch::manual_seed(4);
      trainer.step(rows());
      trainer.end_epoch(Epoch{});
    }
    return std::pair{*plain.asked, Tensors(linear->parameters())};
  };
  Plain a, b, c;
  const auto alone = asked(a, a),
             part = asked(Combined<Plain, SGD>{named("bias"), b, {.lr = 0.1}}, b),
             in_backward = asked(InBackward<Plain>{c}, c);
  CHECK(alone.first == "abue");
  CHECK(part.first == "abue");
  CHECK(in_backward.first == "aabbuuee");  // once for each parameter
  CHECK(worst_relative(part.second, alone.second) < 1e-6);
  CHECK(same_bits(in_backward.second, alone.second));
}

TEST_CASE("own optimizer: one of two tells that it has updated in backward") {
  for (bool early : {false, true}) {
    const Plain plain{.early = early};
    Trainer first{net(), MSELoss{}, Combined<Plain, SGD>{named("bias"), plain, {}}};
    Trainer rest{net(), MSELoss{}, Combined<SGD, Plain>{named("bias"), {}, plain}};
    CHECK(first.mechanism<Combined<Plain, SGD>>().has_updated() == early);
    CHECK(rest.mechanism<Combined<SGD, Plain>>().has_updated() == early);
  }
}

TEST_CASE("own optimizer: state of other names after an update than before it cannot be undone") {
  Trainer trainer{net(), MSELoss{}, Plain{.grows = true}};
  trainer.step(rows());
  CHECK_FALSE(trainer.mechanism<Plain>().history[0].requires_grad());  // it keeps no graph
  trainer.get<Plain>().fails = true;
  CHECK(message_of([&] { trainer.step(rows()); }) == "at the end");
  const char* lost = "`ikebana.undo.history.1` is missing";
  CHECK(contains(message_of<BadModel>([&] { trainer.step(rows()); }), lost));
  CHECK(contains(message_of<BadModel>([&] { trainer.state(); }), lost));
}

TEST_CASE("own optimizer: a tensor that its update resized is put back") {
  Trainer trainer{net(), MSELoss{}, Plain{.fails = true, .resizes = true}};
  const auto batch = rows();
  const StateDict before = trainer.state();
  CHECK(message_of([&] { trainer.step(batch); }) == "at the end");
  CHECK(same_state(trainer.state(), before));
}

TEST_CASE("own optimizer: a learning rate that is not finite is refused") {
  auto linear = net();
  Trainer trainer{linear, MSELoss{}, Plain{},
                  LambdaLR{.lr_lambda = [](auto) { return std::nan(""); }}};
  CHECK(contains(message_of<BadValue>([&] { trainer.step(rows()); }), "the lr"));
  CHECK(same_bits(linear->parameters(), net()->parameters()));
}

TEST_CASE("own optimizer: updates that must be rounded are refused") {
  Trainer trainer{net(), MSELoss{}, OwnMomentum{}, Precision<BF16True>{.keep_fp32 = named("bias")}};
  CHECK(contains(message_of<BadValue>([&] { trainer.step(rows()); }), "rounds updates"));
}

}  // namespace test::own_optimizer
