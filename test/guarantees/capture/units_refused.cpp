// Calls of units that are not replayed: what is refused, and what runs as usual.
#include <thread>

#include "units.hpp"

namespace guarantees::units_refused {

using namespace units;

TEST_CASE("captured units: gradients of other forms make the step again, without the unit's tape") {
  const Figures figures = used(usual_body, [](const auto& unit, const at::Tensor& x, int step) {
    return step % 8 == 6 ? unit(x).sum(0, true).expand({5, body_width}) : unit(x);
  });
  CHECK(figures.error == "");
  CHECK(figures.recordings == 2);
  CHECK(figures.replays == 3);  // steps 4 and 5, and a part of 6
  CHECK(figures.usual == 6);
}

TEST_CASE("captured units: a unit to whose results no backward comes is not recorded for ever") {
  const Figures never = used(
      usual_body, [](const auto& unit, const at::Tensor& x, int) { return unit(x).detach() + x; });
  CHECK(never.error == "");
  CHECK(never.recordings == 8);
  CHECK(never.usual == 2);
  const Figures at_times = used(usual_body, [](const auto& unit, const at::Tensor& x, int step) {
    const at::Tensor y = unit(x);
    return step % 2 == 0 ? y : x;
  });
  CHECK(at_times.error == "");
  CHECK(at_times.recordings == 3);
  CHECK(at_times.replays == 7);
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

TEST_CASE("captured units: gradients of several forms in the first recordings") {
  const Figures figures = used(usual_body, [](const auto& unit, const at::Tensor& x, int step) {
    const at::Tensor y = unit(x);
    return step % 2 == 0 ? y : y.sum(0, true).expand(y.sizes());
  });
  CHECK(figures.error == "");
  CHECK(figures.recordings == 2);
  CHECK(figures.replays == 0);
  CHECK(figures.usual == 8);
}

TEST_CASE("captured units: a kept graph has the same gradient twice") {
  using torch::autograd::grad;
  UsedImpl::made_body = usual_body;
  std::string error;
  std::vector<at::Tensor> first, second;
  UsedImpl::use = [&](const auto& unit, const at::Tensor& x, int) {
    const at::Tensor z = x.detach().requires_grad_();
    const at::Tensor y = unit(z);
    auto gradient = [&](bool keeps) { return grad({y.sum()}, {z}, {}, keeps)[0]; };
    first.push_back(gradient(true)), second.push_back(gradient(true));
    CHECK(test::same_bits(gradient(false), first.back()));
    try {
      gradient(false);
    } catch (const std::exception& e) {
      error = e.what();
    }
    return x;
  };
  Trainer captured{seeded([] { return Used(); }), SGD{.lr = 0.01, .momentum = 0.9},
                   Capture<EachUnit>{}};
  for (int i = 0; i < 8; ++i) captured.step(body_batch(i));
  CHECK(captured.mechanism<Capture<EachUnit>>().replays() == 4);
  CHECK(test::same_bits(first, second));
  CHECK(test::contains(error, "was freed by a former backward. Write retain_graph in that one."));
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
  CHECK(used([](BodyImpl&, const at::Tensor& x) { return x * x.sum().item<double>(); },
             [](const auto& unit, const at::Tensor& x, int step) {
               return unit(x) * unit(x.narrow(0, 0, step % 4 + 1)).sum();
             },
             Capture<EachUnit>{.on_refusal = OnRefusal::Eager})
            .usual == 21);
  REQUIRE(warnings.all.size() == 2);  // one for each trainer
  CHECK(test::contains(warnings.all[0], "`body`"));
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
  Trainer eager{seeded(Chain::made), CrossEntropyLoss{.outputs = true},
                SGD{.lr = 0.1, .momentum = 0.9}};
  Trainer captured{seeded(Chain::made), CrossEntropyLoss{.outputs = true},
                   SGD{.lr = 0.1, .momentum = 0.9}, Capture<EachUnit>{},
                   Observe<Memory>{.by_unit = true}};
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

TEST_CASE("captured units: an error in a replay names the operator and the unit") {
  UsedImpl::made_body = [](BodyImpl& self, const at::Tensor& x) {
    return self.linear(x).index_select(0, x.select(1, 0).abs().to(at::kLong));
  };
  UsedImpl::use = [](const auto& unit, const at::Tensor& x, int step) {
    return unit(step == 9 ? x + 100 : x * 0.01);
  };
  Trainer trainer{seeded([] { return Used(); }), SGD{.lr = 0.01}, Capture<EachUnit>{}};
  for (int i = 0; i < 12; ++i) {
    UsedImpl::step_now = i;
    const std::string error = test::message_of([&] { trainer.step(body_batch(i)); });
    CHECK(error.empty() == (i != 9));
    if (i == 9)
      CHECK(test::contains(error, "index out of range in self, in `index_select`, in unit `body`"));
  }
  CHECK(trainer.template mechanism<Capture<EachUnit>>().replays() == 8);
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
  auto both = compared<TakingNet>(SGD{.lr = 0.01, .momentum = 0.9});
  for (int i = 0; i < 10; ++i)
    if (!both.step(i, body_batch(i), nothing)) return;
  CHECK(both.replays() == 6);
  Trainer trainer{TakingNet(), SGD{}, Capture<EachUnit>{}};
  trainer.model()->taking->changes = true;
  std::string error;
  for (int i = 0; i < 4; ++i) error = test::message_of([&] { trainer.step(body_batch(i)); });
  CHECK(test::contains(error, "changes an argument of its caller's"));
}

}  // namespace guarantees::units_refused
