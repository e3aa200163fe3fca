// Under Capture<EachUnit> every step is the step without it, to the bit, whatever the host decides
// outside of units.
#include <ikebana/bridge/memory_counter.hpp>

#include "units.hpp"

#include <thread>

#include "trainer/failing.hpp"

namespace guarantees::units_captured {

using namespace units;

template <class... Policies>
void check(const std::string& name, const Policies&... policies) {
  check_captured<Deciding, EachUnit>(name, 48, policies...);
}

TEST_CASE("captured units: steps of every precision and checkpoint keep every bit") {
  check("plain", AdamW{.lr = 0.01}, ClipGradNorm{.max_norm = 0.1}, CosineAnnealingLR{.T_max = 30});
  check("BF16", AdamW{.lr = 0.01}, Precision<BF16>{}, Accumulate<2>{});
  check("Full", SGD{.lr = 0.01, .momentum = 0.9}, Checkpoint<Full>{}, Precision<BF16Weights>{});
  check("Selective", AdamW{.lr = 0.01}, Checkpoint<Selective>{},
        Precision<FP16>{.growth_interval = 2}, Accumulate<3>{});
  check("Only", Lion{.lr = 1e-3}, Checkpoint<Only<RecordedBlock>>{}, Precision<BF16True>{});
  check("FP8", Adam{}, Precision<FP8>{DelayedScaling{.amax_history_len = 3}});
  check("EMA", InBackward<AdamW>{AdamW{.lr = 0.01}}, EMA{.decay = 0.9, .use_buffers = true});
  check("Offload", AdamW{.lr = 0.01}, Offload<CPU>{}, Checkpoint<Selective>{});
  check("SkipSpikes", AdamW{.lr = 0.01}, SkipSpikes{.window = 5}, Freeze<>{.match = named("in.*")},
        Checkpoint<Full>{}, Precision<BF16>{});
}

TEST_CASE("captured units: many steps keep every bit") {
  const int steps = test::is_thorough() ? 1000 : 200;
  check_captured<Deciding, EachUnit>("many steps", steps, AdamW{.lr = 0.01},
                                     Checkpoint<Selective>{}, ClipGradNorm{.max_norm = 0.1},
                                     CosineAnnealingLR{.T_max = steps});
}

/// Results of many kinds.
struct Results {
  at::Tensor tanh, again, ids, none;
  std::vector<at::Tensor> parts;
  std::int64_t rows = 0;
};
struct ManyImpl : torch::nn::Module {
  torch::nn::Linear linear{body_width, 3 * body_width};
  torch::nn::BatchNorm1d norm{3 * body_width};
  ManyImpl() { register_module("linear", linear), register_module("norm", norm); }
  Results forward(const at::Tensor& x, const std::vector<at::Tensor>& others, double factor) {
    const at::Tensor y = at::tanh(norm(linear(x * factor)) + others[1]);
    return {.tanh = y,
            .again = y,
            .ids = y.argmax(1),
            .none = {},
            .parts = (y * x[0][0] + others[0]).chunk(3, 1),
            .rows = x.size(0)};
  }
};
TORCH_MODULE(Many);
struct ManyNetImpl : torch::nn::Module {
  using units = Units<Many>;
  torch::nn::Linear in{body_width, body_width};
  Many many;
  ManyNetImpl() { register_module("in", in), register_module("many", many); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor x = in(batch.input);
    const auto a = run(many, x, std::vector<at::Tensor>{x.sum(), at::ones({1})}, 0.5);
    const auto b = run(many, x, std::vector<at::Tensor>{a.tanh.sum(), x.mean()}, 2.0);
    CHECK(a.again.is_same(a.tanh));
    CHECK(!a.none.defined());
    CHECK(!a.ids.requires_grad());
    CHECK(a.rows == batch.input.size(0));
    const at::Tensor y = a.again * b.tanh + a.tanh;
    return {y.sum() + a.parts[0].square().sum() + (b.parts[2] * b.parts[1]).sum() +
                b.tanh.index_select(1, b.ids).sum(),
            batch.input.size(0), y};
  }
};
TORCH_MODULE(ManyNet);

TEST_CASE("captured units: arguments and results of many kinds") {
  auto both = compared<ManyNet>(AdamW{.lr = 0.01});
  for (int i = 0; i < 12; ++i)
    if (!both.step(i, body_batch(i, i == 9 ? 3 : 5), nothing)) return;
  CHECK(both.error == "");
  CHECK(both.capture().recordings() == 6);
  CHECK(both.replays() == 2 * 12 - 2 - 6);
}

/// Two results are one tensor for the host, one of them without its gradient; a third is a view.
struct TwoWaysImpl : torch::nn::Module {
  torch::nn::Linear linear{body_width, body_width};
  TwoWaysImpl() { register_module("linear", linear); }
  std::vector<at::Tensor> forward(const at::Tensor& x) {
    const at::Tensor y = at::tanh(linear(x));
    return {y, y.detach(), y.view_as(y), y};
  }
};
TORCH_MODULE(TwoWays);
struct TwoWaysNetImpl : torch::nn::Module {
  using units = Units<TwoWays>;
  TwoWays two;
  TwoWaysNetImpl() { register_module("two", two); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const std::vector<at::Tensor> y = run(two, batch.input);
    CHECK(!y[1].requires_grad());
    CHECK(y[3].is_same(y[0]));
    CHECK(!y[2].is_same(y[0]));
    return {(y[0] * y[1] + y[2].square()).sum(), batch.input.size(0), y[1]};
  }
};
TORCH_MODULE(TwoWaysNet);

TEST_CASE("captured units: results in one memory, with and without a gradient") {
  auto both = compared<TwoWaysNet>(SGD{.lr = 0.01, .momentum = 0.9});
  for (int i = 0; i < 10; ++i)
    if (!both.step(i, body_batch(i), nothing)) return;
  CHECK(both.error == "");
  CHECK(both.replays() == 6);
}

/// The sum of two results gives both the same gradient, and in some steps their gradients differ.
struct SummedImpl : torch::nn::Module {
  torch::nn::Linear a{body_width, body_width}, b{body_width, body_width};
  SummedImpl() { register_module("a", a), register_module("b", b); }
  std::pair<at::Tensor, at::Tensor> forward(const at::Tensor& x) { return {at::tanh(a(x)), b(x)}; }
};
TORCH_MODULE(Summed);
struct SummedNetImpl : torch::nn::Module {
  using units = Units<Summed>;
  Summed summed;
  SummedNetImpl() { register_module("summed", summed); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const auto [a, b] = run(summed, batch.input);
    return {(batch.target[0].item<int>() < 9 ? a + b : a * 2 + b.sin()).square().sum(), 5, b};
  }
};
TORCH_MODULE(SummedNet);

TEST_CASE("captured units: results that get the same gradient") {
  for (const bool differs : {false, true}) {
    auto both = compared<SummedNet>(SGD{.lr = 0.01, .momentum = 0.9});
    for (int i = 0; i < 10; ++i) {
      Rows batch = body_batch(i);
      if (differs && i == 7) batch.target[0] = 9;
      if (!both.step(i, batch, nothing)) return;
      CHECK(both.error == "");
    }
    CHECK(both.replays() == (differs ? 4 : 6));
  }
}

/// One unit stands within two others.
struct OuterImpl : torch::nn::Module {
  RecordedBlock inner;
  torch::nn::Dropout drop{0.1};
  explicit OuterImpl(RecordedBlock shared = RecordedBlock()) : inner(std::move(shared)) {
    register_module("inner", inner), register_module("drop", drop);
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return drop(run(inner, x)) + x;
  }
};
TORCH_MODULE(Outer);
struct NestedImpl : torch::nn::Module {
  using units = Units<Outer, RecordedBlock>;
  Outer a, b;
  NestedImpl() : b(a->inner) { register_module("a", a), register_module("b", b); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor y = run(b, run(a, batch.input));
    return {y.square().sum(), batch.input.size(0), y};
  }
};
TORCH_MODULE(Nested);

template <class... Policies>
void check_nested(std::int64_t replays, const Policies&... policies) {
  auto both = compared<Nested>(SGD{.lr = 1e-3, .momentum = 0.9}, policies...);
  for (int i = 0; i < 12; ++i)
    if (!both.step(i, recorded_batch(i), nothing)) return;
  CHECK(both.error == "");
  CHECK(both.replays() == replays);
}
TEST_CASE("captured units: units within units") {
  check_nested(2 * (12 - 4));  // the outer ones, as a whole
  check_nested(2 * (12 - 4), Checkpoint<Full>{});
  check_nested(2 * 12 - 4 - 2, Precision<BF16Weights>{});  // the inner one
  check_nested(2 * 12 - 4 - 2, Offload<CPU>{});
}

/// A backward that passes on what it is given, and what forward has made.
struct Passing : torch::autograd::Function<Passing> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& a, const at::Tensor& b,
                                                const at::Tensor& c, const at::Tensor& d) {
    const at::Tensor made = a * 0.1;
    context->save_for_backward({made, d});
    return {a + b + c, made + d};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0], gradients[0], saved[0], saved[1]};
  }
};

TEST_CASE("captured units: gradients that are seeds or saved tensors as they are") {
  const Figures figures = used(
      [](BodyImpl& self, const at::Tensor& x) {
        const at::Tensor a = self.linear(x);
        const auto y = Passing::apply(a, x, self.linear(a), x);
        return at::tanh(y[0] + y[1]);
      },
      [](const auto& unit, const at::Tensor& x, int) { return unit(unit(x * 0.1) * 0.1); });
  CHECK(figures.error == "");
  CHECK(figures.replays == 18);
}

TEST_CASE("captured units: a mode or a number of a module that changes within a step") {
  auto body = [](BodyImpl& self, const at::Tensor& x) { return self.drop(self.linear(x)); };
  UsedImpl::made_body = body;
  UsedImpl::use = [](const auto& unit, const at::Tensor& x, int) { return unit(unit(x)); };
  auto both = compared<Used>(SGD{.lr = 0.01, .momentum = 0.9});
  for (int i = 0; i < 24; ++i) {
    auto between = [&](auto& trainer, int step) {
      auto& drop = trainer.model()->body->drop;
      if (step == 8) drop->options.p(0.7);
      if (step == 14) drop->eval();
      if (step == 20) trainer.model()->body->linear->bias.requires_grad_(false);
    };
    if (!both.step(i, body_batch(i), between)) return;
  }
  CHECK(both.error == "");
  CHECK(both.capture().recordings() == 8);
}

TEST_CASE("captured units: the tape that was used least recently is dropped") {
  const Capture<EachUnit> three{.tapes = 3};
  auto lengths = [](const auto& unit, const at::Tensor& x, int step) {
    at::Tensor y = unit(x);
    for (int i = 1; i <= step % 3 + 1; ++i) y = y + unit(x.narrow(0, 0, i)).sum();
    return y;
  };
  const Figures figures = used(usual_body, lengths, three);
  CHECK(figures.error == "");
  CHECK(figures.recordings > 8);
  CHECK(used(usual_body, lengths).recordings == 8);
  CHECK(test::contains(
      test::message_of([&] { used(usual_body, once, Capture<EachUnit>{.tapes = 0}); }),
      "tapes is 0"));
}

TEST_CASE("captured units: two trainers on two threads") {
  struct Still : RecordedNetImpl {
    Still() { first->drop->options.p(0), second->drop->options.p(0); }
  };
  auto train = [](std::vector<at::Tensor>& losses, auto trainer, int least_replays) {
    for (int i = 0; i < 40; ++i)
      losses.push_back(trainer.step(Rows{at::ones({12, 16}), at::arange(12) % 7}).mean());
    CHECK(trainer.template mechanism<Capture<EachUnit>>().replays() > least_replays);
  };
  auto check_two = [&](int least_of_two, auto... policies) {
    std::vector<at::Tensor> all[3];
    auto made = [&] {
      return Trainer{seeded([] { return std::make_shared<Still>(); }), CrossEntropyLoss{}, SGD{},
                     Capture<EachUnit>{}, policies...};
    };
    train(all[0], made(), 60);
    auto a = made(), b = made();
    std::thread one([&] { train(all[1], std::move(a), least_of_two); });
    std::thread two([&] { train(all[2], std::move(b), least_of_two); });
    one.join(), two.join();
    CHECK(test::same_bits(all[1], all[0]));
    CHECK(test::same_bits(all[2], all[0]));
  };
  check_two(60);
  // A recording is of no use if the other thread clears autocast's cache meanwhile.
  check_two(20, Precision<BF16>{});
}

TEST_CASE("captured units: two trainers alternate, and are moved") {
  using Both = ComparedWith<EachUnit, Deciding, AdamW>;
  Both one, other;
  for (int i = 0; i < 12; ++i)
    if (!one.step(i, recorded_batch(i), nothing) || !other.step(i, recorded_batch(i + 9), nothing))
      return;
  Both moved = std::move(one);
  for (int i = 12; i < 16; ++i) moved.step(i, recorded_batch(i), nothing);
  CHECK(moved.replays() > 16);
}

template <class Policy>
void check_out_of_memory() {
  test::on_own_thread([] {
    ComparedWith<EachUnit, Deciding, AdamW, Policy> both;
    for (int i = 0; i < 9; ++i) {
      CAPTURE(i);
      const Rows batch = recorded_batch(i);
      StateDict before = state_of(both.eager);
      both.eager.step(batch);
      const StateDict after = state_of(both.eager);
      both.captured.restore(before);
      test::FailingAllocator failing;
      test::fail_each(
          [&] {
            if (both.captured.steps() < both.eager.steps()) both.captured.step(batch);
          },
          [&](const std::exception_ptr& error) {
            CHECK(test::same_state(state_of(both.captured), error != nullptr ? before : after));
            if (error != nullptr) CHECK_THROWS_AS(std::rethrow_exception(error), OutOfMemory);
          });
      CHECK(both.captured.steps() == both.eager.steps());
    }
    CHECK(both.replays() >= 3);
  });
}
TEST_CASE("captured units: a step that runs out of memory changes nothing") {
  check_out_of_memory<Checkpoint<Full>>();
  check_out_of_memory<Precision<BF16>>();
}

/// Its backward needs little memory beside what forward keeps, if it computes where that is needed
/// no more.
struct WideImpl : torch::nn::Module {
  torch::nn::Linear up{64, 256}, down{256, 64};
  WideImpl() { register_module("up", up), register_module("down", down); }
  at::Tensor forward(const at::Tensor& x) { return x + down(at::gelu(at::tanh(up(x)))); }
};
TORCH_MODULE(Wide);
struct WideNetImpl : torch::nn::Module {
  using units = Units<Wide>;
  Wide first, second;
  WideNetImpl() { register_module("first", first), register_module("second", second); }
  bool keeps = false;  // the graph of a backward in forward
  std::vector<at::Tensor> gradients;
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor x = run(first, batch.input), y = run(second, x);
    for (int i = 0; keeps && i < 2; ++i)
      gradients.push_back(torch::autograd::grad({y.square().sum()}, {x}, {}, /*retain=*/true)[0]);
    return {y.square().sum(), batch.input.size(0)};
  }
};
TORCH_MODULE(WideNet);

/// Returns the most bytes in use in a step that is replayed, if a trainer captures.
template <class... Policies>
double peak_of(const Policies&... policies) {
  Trainer trainer{WideNet(), SGD{.lr = 0.01}, policies...};
  const Rows batch{at::ones({512, 64}), {}};
  for (int i = 0; i < 6; ++i) trainer.step(batch);
  bridge::MemoryCounter counter(at::kCPU);
  trainer.step(batch);
  return static_cast<double>(counter.peak());
}

TEST_CASE("captured units: backward computes where what forward kept is needed no more") {
  const bridge::MemoryCounter counts_from_here(at::kCPU);
  const double eager = peak_of();
  const double ratio = peak_of(Capture<EachUnit>{}) / eager;
  CHECK(ratio < 1.1);
}

TEST_CASE("captured units: backward leaves what forward kept to another one of a kept graph") {
  std::vector<at::Tensor> gradients[2];
  auto collect = [&](std::size_t which, const auto&... capture) {
    torch::manual_seed(3);
    WideNet net;
    net->keeps = true;
    Trainer trainer{net, SGD{.lr = 0.01}, capture...};
    for (int i = 0; i < 8; ++i) trainer.step(Rows{torch::randn({16, 64}), {}});
    gradients[which] = net->gradients;
    for (const at::Tensor& p : net->parameters()) gradients[which].push_back(p.detach());
    return trainer;
  };
  collect(0);
  auto captured = collect(1, Capture<EachUnit>{});
  CHECK(captured.mechanism<Capture<EachUnit>>().replays() > 6);
  CHECK(test::same_bits(gradients[1], gradients[0]));
}

TEST_CASE("captured units: the tape is a text by unit") {
  ComparedWith<EachUnit, Deciding, SGD> both;
  CHECK(both.capture().text() == "no unit was recorded yet\n");
  for (int i = 0; i < 10; ++i) both.step(i, recorded_batch(i), nothing);
  const std::string text = both.captured.template tape<EachUnit>();
  CHECK(test::contains(text, "unit `first`: "));
  CHECK(test::contains(text, "addmm(mix.bias, "));
  CHECK(test::contains(text, "backward"));
}

}  // namespace guarantees::units_captured
