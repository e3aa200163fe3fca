// Under Capture<EachUnit> every step is the step without it, to the bit, whatever the host decides
// outside of units.
#include "captured.hpp"

#include <thread>

#include "trainer/failing.hpp"

namespace guarantees::units {

/// The host decides in each step which blocks are run, and how often. What a block is given is used
/// by other code as well.
struct DecidingImpl : RecordedNetImpl {
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor begin = batch_norm(in(batch.input));
    const auto way = static_cast<int>(begin[0][0].template item<float>() * 10) % 3;
    at::Tensor x = run(first, begin);
    if (way != 0) x = run(second, x) + begin;
    if (way == 1) x = run(first, x * 0.5);
    const at::Tensor logits = head(x + begin);
    return {at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            (batch.target != -100).sum(), logits};
  }
};
TORCH_MODULE(Deciding);

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

TEST_CASE("captured units: a thousand steps keep every bit") {
  check_captured<Deciding, EachUnit>(
      "1,000 steps", 1000, AdamW{.lr = 0.01}, Precision<BF16>{}, Checkpoint<Selective>{},
      Accumulate<2>{}, ClipGradNorm{.max_norm = 0.1}, CosineAnnealingLR{.T_max = 1000});
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

template <class Net, class... Policies>
auto compared(const Policies&... policies) {
  return ComparedWith<EachUnit, Net, Policies...>(policies...);
}

TEST_CASE("captured units: arguments and results of many kinds") {
  auto both = compared<ManyNet>(AdamW{.lr = 0.01});
  for (int i = 0; i < 12; ++i)
    if (!both.step(i, body_batch(i, i == 9 ? 3 : 5), nothing)) return;
  CHECK(both.error == "");
  CHECK(both.capture().recordings() == 6);
  CHECK(both.replays() == 2 * 12 - 2 - 6);
}

/// A net of one unit, whose body and use the test supplies.
struct UsedImpl : BodyNetImpl {
  using Use = std::function<at::Tensor(const std::function<at::Tensor(at::Tensor)>& unit,
                                       const at::Tensor& x, int step)>;
  static inline BodyImpl::Function made_body = usual_body;
  static inline Use use;
  static inline int step_now = 0;
  UsedImpl() : BodyNetImpl(made_body, usual_ending) {}
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const std::function<at::Tensor(at::Tensor)> unit = [&](at::Tensor t) { return run(body, t); };
    const at::Tensor y = use(unit, in(batch.input), step_now);
    return {.sum = (y * y).sum(), .count = batch.input.size(0), .outputs = y};
  }
};
TORCH_MODULE(Used);

struct Figures {
  std::int64_t replays, recordings, usual;
  std::string error;
};
/// Steps a net whose unit is `body`, used by `use`, and returns what Capture did.
template <class... Policies>
Figures used(const BodyImpl::Function& body, const UsedImpl::Use& use,
             const Capture<EachUnit>& capture = {}, const Policies&... policies) {
  UsedImpl::made_body = body, UsedImpl::use = use;
  Trainer eager{seeded([] { return Used(); }), SGD{.lr = 0.01}, policies...};
  Trainer captured{seeded([] { return Used(); }), SGD{.lr = 0.01}, policies..., capture};
  Figures all{};
  for (int i = 0; i < 12; ++i) {
    UsedImpl::step_now = i;
    const Outcome a = outcome_of(captured, body_batch(i), i);
    if (a.error != "") all.error = a.error;
    if (test::contains(a.error, "Capture<EachUnit>")) break;
    const std::string text = difference(a, outcome_of(eager, body_batch(i), i));
    CHECK(text == "");
    if (text != "") break;
  }
  const auto& c = captured.template mechanism<Capture<EachUnit>>();
  all.replays = c.replays(), all.recordings = c.recordings(), all.usual = c.usual_calls();
  return all;
}
const UsedImpl::Use once = [](const auto& unit, const at::Tensor& x, int) { return unit(x); };

TEST_CASE("captured units: gradients of other forms make the step again, without the unit's tape") {
  const Figures figures = used(usual_body, [](const auto& unit, const at::Tensor& x, int step) {
    return step % 8 == 6 ? unit(x).sum(0, true).expand({5, body_width}) : unit(x);
  });
  CHECK(figures.error == "");
  CHECK(figures.recordings == 2);
  CHECK(figures.replays == 3);  // steps 4 and 5, and a part of 6
  CHECK(figures.usual == 6);
}

TEST_CASE("captured units: a result that is changed in place") {
  auto changed = [](int begin) {
    return [begin](const auto& unit, const at::Tensor& x, int step) {
      at::Tensor y = unit(x);
      if (step >= begin) y.mul_(2);
      return y;
    };
  };
  auto not_saved = [](BodyImpl& self, const at::Tensor& x) { return self.linear(at::tanh(x)); };
  CHECK(used(not_saved, changed(0)).replays == 8);
  CHECK(used(not_saved, changed(6)).error == "");
  CHECK(test::contains(used(usual_body, changed(6)).error, "was changed in place"));
  const Figures figures = used(usual_body, changed(0));  // LibTorch's own error
  CHECK(test::contains(figures.error, "modified by an inplace operation"));
}

TEST_CASE("captured units: an argument or a weight that is changed in place before backward") {
  auto argument = [](const auto& unit, const at::Tensor& x, int step) {
    const at::Tensor a = x * 1, y = unit(a);
    if (step == 8) a.data().mul_(1), a.mul_(2);
    return y;
  };
  CHECK(test::contains(used(usual_body, argument).error, "was changed in place"));
}

TEST_CASE("captured units: views of arguments run as usual") {
  const Figures figures = used(
      [](BodyImpl&, const at::Tensor& x) { return x.view({x.size(0), 2, -1}).flatten(1); }, once);
  CHECK(figures.error == "");
  CHECK(figures.recordings == 1);
  CHECK(figures.replays == 0);
}

/// A backward that passes on what it is given, and what forward has made.
struct Passing : torch::autograd::Function<Passing> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context,
                                                const at::Tensor& a, const at::Tensor& b,
                                                const at::Tensor& c, const at::Tensor& d) {
    const at::Tensor made = a * 3;
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
      [](const auto& unit, const at::Tensor& x, int) { return unit(at::tanh(unit(x) + x)); });
  CHECK(figures.error == "");
  CHECK(figures.replays == 18);
}

TEST_CASE("captured units: calls without gradients, and on other threads, run as usual") {
  const Figures figures = used(usual_body, [](const auto& unit, const at::Tensor& x, int) {
    at::Tensor teacher, other;
    {
      const at::NoGradGuard no_grad;
      teacher = unit(x);
    }
    std::thread([&] { other = unit(x); }).join();
    return unit(x) * teacher + other;
  });
  CHECK(figures.error == "");
  CHECK(figures.replays == 8);
}

TEST_CASE("captured units: a unit's gradient is taken in forward, and the graph kept") {
  const Figures figures = used(usual_body, [](const auto& unit, const at::Tensor& x, int) {
    const at::Tensor y = unit(x), seed = at::ones_like(y);
    const at::Tensor slope = torch::autograd::grad({y}, {x}, {seed}, /*retain_graph=*/true)[0];
    return y * slope;
  });
  CHECK(figures.error == "");
  CHECK(figures.replays > 5);
}

TEST_CASE("captured units: a mode or a number of a module that changes within a step") {
  auto body = [](BodyImpl& self, const at::Tensor& x) { return self.drop(self.linear(x)); };
  UsedImpl::made_body = body;
  UsedImpl::use = [](const auto& unit, const at::Tensor& x, int) { return unit(unit(x)); };
  auto both = compared<Used>(SGD{.lr = 0.01});
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

/// An error names the unit, and what it does that a replay would not repeat.
TEST_CASE("captured units: what cannot be recorded is refused") {
  auto refused = [](const BodyImpl::Function& body, const std::string& text,
                    const UsedImpl::Use& use = once) {
    CAPTURE(text);
    const std::string error = used(body, use).error;
    CAPTURE(error);
    CHECK(test::contains(error, "Capture<EachUnit>"));
    CHECK(test::contains(error, "unit `body`"));
    CHECK(test::contains(error, text));
  };
  using Self = BodyImpl;
  using T = at::Tensor;
  refused([](Self&, const T& x) { return x * x.sum().item<double>(); }, "gives the host a number");
  refused([](Self& self, const T& x) { return x * self.loose; }, "no operator of the step makes");
  refused([](Self&, const T& x) { return x * (1.0 + UsedImpl::step_now); }, "differs between");
  refused([](Self& self, const T& x) { return ++self.calls, self.linear(x); },
          "changes a member of itself");
  refused([](Self& self, const T& x) { return x.mul_(2), self.linear(x); }, "in place");
  refused([](Self& self, const T& x) { return self.linear(x), x.view(-1).view({-1, body_width}); },
          "a result is an argument");
  static T leaked;
  refused([](Self& self, const T& x) { return leaked = self.linear(x), leaked * 2; },
          "is no result of it", [](const auto& unit, const T& x, int) { return unit(x) + leaked; });
  refused(usual_body, "create_graph", [](const auto& unit, const T& x, int) {
    const T y = unit(x);
    return y * torch::autograd::grad({y}, {x}, {at::ones_like(y)}, true, /*create_graph=*/true)[0];
  });
  static T foreign;
  refused([](Self&, const T& x) { return x * foreign; }, "that no operator of the step makes",
          [](const auto& unit, const T& x, int) {
            foreign = x.sum(0);
            return unit(x);
          });
  leaked.reset(), foreign.reset();
}

TEST_CASE("captured units: under OnRefusal::Eager only the unit that is refused runs as usual") {
  struct Warnings : c10::WarningHandler {
    std::vector<std::string> all;
    void process(const c10::Warning& warning) override { all.push_back(warning.msg()); }
  } warnings;
  const c10::WarningUtils::WarningHandlerGuard guard(&warnings);
  const Figures figures =
      used([](BodyImpl&, const at::Tensor& x) { return x * x.sum().item<double>(); }, once,
           Capture<EachUnit>{.on_refusal = OnRefusal::Eager});
  CHECK(figures.error == "");
  CHECK(figures.usual == 9);
  REQUIRE(warnings.all.size() == 1);
  CHECK(test::contains(warnings.all[0], "`body`"));
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
  auto train = [](std::vector<at::Tensor>& losses, auto trainer) {
    for (int i = 0; i < 40; ++i)
      losses.push_back(trainer.step(Rows{at::ones({12, 16}), at::arange(12) % 7}).mean());
    CHECK(trainer.template mechanism<Capture<EachUnit>>().replays() > 60);
  };
  auto check_two = [&](auto... policies) {
    std::vector<at::Tensor> all[3];
    auto made = [&] {
      return Trainer{seeded([] { return std::make_shared<Still>(); }), CrossEntropyLoss{}, SGD{},
                     Capture<EachUnit>{}, policies...};
    };
    train(all[0], made());
    auto a = made(), b = made();
    std::thread one([&] { train(all[1], std::move(a)); });
    std::thread two([&] { train(all[2], std::move(b)); });
    one.join(), two.join();
    CHECK(test::same_bits(all[1], all[0]));
    CHECK(test::same_bits(all[2], all[0]));
  };
  check_two();
  check_two(Precision<BF16>{});
}

/// The children of a Sequential are its units.
struct Chain {
  static torch::nn::Sequential made() {
    namespace nn = torch::nn;
    return nn::Sequential(nn::Linear(8, 8), nn::BatchNorm1d(8), nn::Tanh(),
                          nn::Unflatten(nn::UnflattenOptions(1, {2, 4})), nn::Flatten(),
                          nn::Dropout(0.5), nn::Dropout(0.0), nn::Linear(8, 3));
  }
};
TEST_CASE("captured units: the layers of a Sequential, of which some are views") {
  Trainer eager{seeded(Chain::made), CrossEntropyLoss{.outputs = true}, SGD{.lr = 0.1}};
  Trainer captured{seeded(Chain::made), CrossEntropyLoss{.outputs = true}, SGD{.lr = 0.1},
                   Capture<EachUnit>{}, Observe<Memory>{.by_unit = true}};
  for (int i = 0; i < 10; ++i) {
    const Outcome expected = outcome_of(eager, body_batch(i), i);
    REQUIRE(difference(outcome_of(captured, body_batch(i), i), expected) == "");
  }
  CHECK(captured.template mechanism<Capture<EachUnit>>().replays() == 5 * 6);

  auto refused = [](const char* text, auto layer) {
    Trainer trainer{torch::nn::Sequential(torch::nn::Linear(8, 8), layer), CrossEntropyLoss{},
                    Capture<EachUnit>{}};
    std::string error;
    for (int i = 0; i < 4; ++i) error += test::message_of([&] { trainer.step(body_batch(i)); });
    CAPTURE(error);
    CHECK(test::contains(error, text));
    CHECK(test::contains(error, "unit `1`"));
  };
  refused("in place", torch::nn::ReLU(torch::nn::ReLUOptions(true)));
}

/// Takes arguments by value, and by a reference that it changes.
struct TakingImpl : torch::nn::Module {
  torch::nn::Linear linear{body_width, body_width};
  bool changes = false;
  TakingImpl() { register_module("linear", linear); }
  at::Tensor forward(at::Tensor x, at::Tensor& state, std::unique_ptr<int> moved) {
    x = linear(x) * *moved;
    if (changes) state = x.detach();
    return x + state;
  }
};
TORCH_MODULE(Taking);
struct TakingNetImpl : torch::nn::Module {
  using units = Units<Taking>;
  Taking taking;
  at::Tensor state = at::zeros({5, body_width});
  TakingNetImpl() { register_module("taking", taking); }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor now = state;
    const at::Tensor y = run(taking, batch.input * 1, now, std::make_unique<int>(2));
    return {y.square().sum(), batch.input.size(0), y};
  }
};
TORCH_MODULE(TakingNet);

TEST_CASE("captured units: arguments that are moved from, and arguments that are changed") {
  auto both = compared<TakingNet>(SGD{.lr = 0.01});
  for (int i = 0; i < 10; ++i)
    if (!both.step(i, body_batch(i), nothing)) return;
  CHECK(both.replays() == 6);
  Trainer trainer{TakingNet(), SGD{}, Capture<EachUnit>{}};
  trainer.model()->taking->changes = true;
  std::string error;
  for (int i = 0; i < 4; ++i) error = test::message_of([&] { trainer.step(body_batch(i)); });
  CHECK(test::contains(error, "changes an argument of its caller's"));
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

TEST_CASE("captured units: a step that runs out of memory changes nothing") {
  test::on_own_thread([] {
    ComparedWith<EachUnit, Deciding, AdamW, Checkpoint<Full>> both;
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

TEST_CASE("captured units: the tape is a text by unit") {
  ComparedWith<EachUnit, Deciding, SGD> both;
  CHECK(both.capture().text() == "no unit was recorded yet\n");
  for (int i = 0; i < 10; ++i) both.step(i, recorded_batch(i), nothing);
  const std::string text = both.captured.template tape<EachUnit>();
  CHECK(test::contains(text, "unit `first`: "));
  CHECK(test::contains(text, "addmm(mix.bias, "));
  CHECK(test::contains(text, "backward"));
}

}  // namespace guarantees::units
