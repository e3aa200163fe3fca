// A training whose steps are captured as graphs keeps every bit of one without, on the device, and
// the host waits for nothing.
#include "capture.hpp"

#include <ATen/DeviceAccelerator.h>

#include <thread>

#include "simulated.hpp"

namespace gpu::capture_cases {

/// Changes the trainer or its batch before a step.
template <class Trainer>
Rows before_step(Trainer& trainer, int i) {
  Rows batch = rows(i, i % 15 == 8 || i % 15 == 9 || i % 15 == 10 || i % 15 == 11 ? 6 : 8);
  if (i == 6) trainer.restore(trainer.state());
  if (i == 13) batch.input[0][0] = std::nan("");
  if (i == 16) trainer.evaluate(std::vector<Rows>{batch});
  return batch;
}

template <class Model, class... Policies>
void check_captured(const std::string& name, const Policies&... policies) {
  CAPTURE(name);
  const Deterministic deterministic;
  Trainer eager(made<Model>(), Counted{}, policies...);
  Trainer captured(made<Model>(), Counted{}, policies..., Capture<WholeStep>{});
  constexpr int steps = 22;
  for (int i = 0; i < steps; ++i) {
    CAPTURE(i);
    const Rows a = before_step(eager, i);
    const Outcome expected = stepped(eager, a, i);
    const Rows b = before_step(captured, i);
    REQUIRE(difference(stepped(captured, b, i), expected) == "");
  }
  const auto& capture = captured.template mechanism<Capture<WholeStep>>();
  CHECK(capture.replays() >= steps / 2);
  CHECK(capture.recordings() > 0);
}

TEST_CASE("capture: replayed steps keep every bit, on a device as graphs") {
  check_captured<Plain>("AdamW", AdamW{.lr = 1e-2});
  check_captured<Random>("AdamW, clipping", AdamW{.lr = 1e-2}, ClipGradNorm{1.0});
  check_captured<Random>("SGD, StepLR", SGD{.lr = 1e-2, .momentum = 0.9}, StepLR{.step_size = 3});
  check_captured<Random>("Accumulate<2>", AdamW{.lr = 1e-2}, Accumulate<2>{});
  check_captured<Random>("BF16", AdamW{.lr = 1e-2}, Precision<BF16>{}, ClipGradNorm{1.0});
  check_captured<Random>("BF16Weights", AdamW{.lr = 1e-2}, Precision<BF16Weights>{},
                         Accumulate<2>{});
  check_captured<Random>("BF16True", AdamW{.lr = 1e-2}, Precision<BF16True>{});
  check_captured<Random>("FP16", AdamW{.lr = 1e-2}, Precision<FP16>{.growth_interval = 5});
  check_captured<Random>("EMA", Lion{.lr = 1e-3}, EMA{.decay = 0.9});
  check_captured<Plain>("Full", AdamW{.lr = 1e-2}, Checkpoint<Full>{}, Accumulate<2>{});
  check_captured<Plain>("Selective", AdamW{.lr = 1e-2}, Checkpoint<Selective>{});
}

/// Trains both ways. The reports are read after the last step.
template <class... Policies>
void check_trained(const std::vector<Texts>& batches, const Policies&... policies) {
  const Deterministic deterministic;
  const Trace eager = trained_on(device(), net(), batches, policies...);
  CHECK(same_bits(trained_on(device(), net(), batches, policies..., Capture<WholeStep>{}), eager));
}

TEST_CASE("capture: attention, and reports that are read later") {
  const auto batches = texts(12);
  check_trained(batches, adamw, Precision<BF16>{}, ClipGradNorm{1.0});
  check_trained(batches, adamw, Precision<BF16>{}, Accumulate<2>{});
  check_trained(batches, adamw, Checkpoint<Full>{}, Accumulate<2>{});
  check_trained(batches, adamw, Checkpoint<Selective>{}, Precision<BF16Weights>{});
}

TEST_CASE("capture: on a device all graphs use one pool, not larger than a step without them") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device tells what graphs use");
  const auto lengths = {16, 12, 8, 16, 12, 8};
  auto batch = [](std::int64_t length) {
    Texts all = texts(1)[0];
    return Texts{all.input.narrow(1, 0, length), all.target.narrow(1, 0, length)};
  };
  auto peak = [&](auto... policies) {
    Net model = net();
    model->to(device());
    Trainer trainer{model, adamw, policies...};
    for (int round = 0; round < 4; ++round)
      for (const std::int64_t length : lengths) trainer.step(batch(length));
    const std::int64_t before = allocated().now;
    at::getDeviceAllocator(device().type())->resetPeakStats(0);
    for (const std::int64_t length : lengths) trainer.step(batch(length));
    return allocated().peak - before;
  };
  const auto eager = static_cast<double>(peak());
  const auto before = simulated::graph_memory();
  const auto other = static_cast<double>(peak(Capture<WholeStep>{}));
  const auto pool = static_cast<double>(simulated::graph_memory() - before);
  INFO("a step " << eager << " bytes, the pool " << pool << ", beside it " << other);
  CHECK(pool > 0);
  CHECK(pool + other <= 1.1 * eager);
}

TEST_CASE("capture: a replayed step launches two graphs, and what the host does beside them") {
  NOT_RUN_UNLESS(on_simulated(), "only the simulated device counts what is launched");
  BodyNet model([](BodyImpl& self, const at::Tensor& x) { return at::gelu(self.linear(x)); });
  model->to(device());
  Trainer trainer{model, Counted{}, AdamW{.lr = 1e-2}, Capture<WholeStep>{}};
  for (int i = 0; i < 4; ++i) trainer.step(rows(i));
  const Rows batch{rows(4).input.to(device()), rows(4).target.to(device())};
  std::map<std::string, int> launched;
  {
    const simulated::Launches launches;
    trainer.step(batch);
    for (const auto& name : launches.names()) ++launched[name];
  }
  // Two tensors of the batch and the seed of backward are given; the loss, its count and the
  // outputs are taken; and a flag goes to the host. The seed is divided by the count. The other
  // operators check the loss and update.
  const std::map<std::string, int> expected = {
      {"graph", 2},     {"copy_", 7},
      {"aten::div", 1}, {"aten::zero_", 1},
      {"aten::add", 1}, {"aten::_amp_foreach_non_finite_check_and_unscale_", 1},
      {"aten::sub", 1}, {"aten::_fused_adamw_", 1}};
  CHECK(launched == expected);
}

TEST_CASE("capture: batches that share memory, or repeat it") {
  const Deterministic deterministic;
  auto losses = [&](auto... policies) {
    Trainer trainer{made<Plain>(), Counted{}, AdamW{.lr = 1e-2}, policies...};
    std::vector<double> all;
    for (int i = 0; i < 8; ++i) {
      const Rows whole{rows(i).input.to(device()), rows(i).target.to(device())};
      const at::Tensor one = whole.input.narrow(0, i, 1).expand({8, 12});
      all.push_back(trainer.step(Rows{one, whole.target}).loss());
      all.push_back(trainer.step(Rows{whole.input.t().contiguous().t(), whole.target}).loss());
    }
    return all;
  };
  CHECK(losses(Capture<WholeStep>{}) == losses());
}

/// The terms of a loss and its outputs are one tensor.
struct OneTensor {
  template <class Run>
  Loss operator()(Run& run, Plain& model, const Rows& batch) const {
    const at::Tensor sum = model->forward(run, batch.input).square().sum();
    return {.sum = sum, .count = 8, .outputs = sum, .terms = {{"half", sum, 8, 0.5}}};
  }
};

TEST_CASE("capture: a loss whose terms and outputs are one tensor") {
  const Deterministic deterministic;
  Trainer eager{made<Plain>(), OneTensor{}, AdamW{.lr = 1e-2}};
  Trainer captured{made<Plain>(), OneTensor{}, AdamW{.lr = 1e-2}, Capture<WholeStep>{}};
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    const Outcome expected = stepped(eager, rows(i), i);
    REQUIRE(difference(stepped(captured, rows(i), i), expected) == "");
  }
  CHECK(captured.template mechanism<Capture<WholeStep>>().replays() == 4);
}

/// Batch norm reads the batch itself, and writes its statistics alone.
struct NormedInput {
  template <class Run>
  Loss operator()(Run& run, Plain& model, const Rows& batch) const {
    return Counted()(run, model, Rows{model->first->norm(batch.input), batch.target});
  }
};

TEST_CASE("capture: batch norm of the batch itself") {
  const Deterministic deterministic;
  Trainer eager{made<Plain>(), NormedInput{}, SGD{.lr = 1e-2}};
  Trainer captured{made<Plain>(), NormedInput{}, SGD{.lr = 1e-2}, Capture<WholeStep>{}};
  for (int i = 0; i < 8; ++i) {
    CAPTURE(i);
    const Outcome expected = stepped(eager, rows(i), i);
    REQUIRE(difference(stepped(captured, rows(i), i), expected) == "");
  }
  CHECK(captured.template mechanism<Capture<WholeStep>>().replays() == 4);
}

/// A function of a user's own.
struct Cube : torch::autograd::Function<Cube> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {gradients[0] * 3 * x * x};
  }
};

TEST_CASE("capture: a function of a user's own, the last device, and two trainers on two threads") {
  const Deterministic deterministic;
  auto body = [](BodyImpl& self, const at::Tensor& x) { return Cube::apply(self.linear(x)); };
  auto model_on = [&](int index) {
    torch::manual_seed(3);
    BodyNet model(body);
    model->to(device(index));
    return model;
  };
  auto losses = [&](BodyNet model, auto... policies) {
    Trainer trainer{model, Counted{}, AdamW{.lr = 1e-2}, policies...};
    std::vector<double> all;
    for (int i = 0; i < 8; ++i) {
      const at::Tensor input = at::arange(96, at::kFloat).view({8, 12}).sin() * (i + 1);
      all.push_back(trainer.step(Rows{input, at::arange(8, at::kLong).remainder(5)}).loss());
    }
    return all;
  };
  const auto expected = losses(model_on(0));
  CHECK(losses(model_on(devices() - 1), Capture<WholeStep>{}) == expected);
  std::vector<double> other;
  BodyNet one = model_on(0), last = model_on(devices() - 1);
  std::thread thread([&] { other = losses(last, Capture<WholeStep>{}); });
  CHECK(losses(one, Capture<WholeStep>{}) == expected);
  thread.join();
  CHECK(other == expected);
}

TEST_CASE("capture: the text of a graph, and a device without graphs") {
  Trainer trainer{made<Plain>(), Counted{}, AdamW{}, Capture<WholeStep>{}};
  for (int i = 0; i < 4; ++i) trainer.step(rows(i));
  const std::string text = trainer.tape();
  CHECK(test::contains(text, on_cpu() ? "in an arena of" : "in two graphs of"));
  for (const char* part : {"forward", "first", "addmm(first.linear.bias, ", "backward", "seed"})
    CHECK(test::contains(text, part));
  const auto error = test::message_of<BadValue>(
      [] { const ikebana::detail::GraphMemory memory{c10::Device(at::kMeta)}; });
  CHECK(test::contains(error, "this program has no graphs for meta"));
}

}  // namespace gpu::capture_cases
