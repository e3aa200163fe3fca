// InPlaceChecker: whom it names, how long, on which threads, and what it leaves as it was.
#include "test.hpp"

#include <ikebana.hpp>
#include <ikebana/memory/in_place.hpp>
#include <ikebana/memory/unit_labels.hpp>
#include <memory>
#include <thread>

#include "../../../examples/models/gpt.hpp"

using namespace ikebana;

namespace guarantees::in_place {

at::Tensor leaf() { return at::randn({3, 4}).requires_grad_(); }

TEST_CASE("in place: the operators, shapes and labels of those who saved are named") {
  InPlaceChecker checker;
  const at::Tensor x = leaf(), w = at::randn({5, 4}).requires_grad_();
  at::Tensor y;
  {
    RECORD_USER_SCOPE("encoder");
    y = [&] {
      RECORD_USER_SCOPE("block 0");
      return at::linear(x, w) * 2;
    }();
  }
  at::Tensor z = x.exp();
  CHECK(checker.saved() == 3);
  const auto of_x = checker.would_break_backward(x);
  REQUIRE(of_x.size() == 1);
  CHECK(of_x[0].saved_by == "aten::linear > aten::matmul > aten::mm");
  CHECK(of_x[0].label == "encoder > block 0");
  CHECK(of_x[0].sizes == std::vector<std::int64_t>{3, 4});
  CHECK(of_x[0].effect == WriteEffect::Throws);
  CHECK(checker.would_break_backward(w).size() == 1);
  const auto of_z = checker.would_break_backward(z.view({12}));
  REQUIRE(of_z.size() == 1);
  CHECK(of_z[0].text() == "aten::exp saved Float[3, 4] on cpu");
  CHECK(checker.explain(z) ==
        "a write in place breaks backward:\n  " + of_z[0].text() + ": backward will throw");
  CHECK(test::contains(checker.explain(y), "breaks no backward that this checker knows of"));
  CHECK(checker.would_break_backward({}).empty());
}

TEST_CASE("in place: a tensor counts as saved as long as its graph needs it") {
  InPlaceChecker checker;
  const at::Tensor x = leaf();
  auto affected = [&](const at::Tensor& t) { return checker.would_break_backward(t).size(); };
  at::Tensor y = (x * x).sum();
  CHECK(affected(x) == 2);
  y.backward({}, /*retain_graph=*/true);
  CHECK(affected(x) == 2);
  y.backward();
  CHECK(affected(x) == 0);
  y = x.exp().sum();
  CHECK(checker.saved() == 1);
  y = at::Tensor();
  CHECK(checker.saved() == 0);
  {
    at::NoGradGuard no_grad;
    y = (x * x).sum();
  }
  CHECK(checker.saved() == 0);
}

TEST_CASE("in place: backward names who saved what was changed, also after the checker") {
  const at::Tensor x = leaf();
  at::Tensor h = x.clone(), loss;
  {
    InPlaceChecker checker;
    loss = (h * h.sin()).sum();
    CHECK(checker.changed().empty());
    h.add_(1);
    CHECK(checker.changed().size() == 2);
    CHECK(test::contains(checker.explain(h), "since it was changed already"));
  }
  const auto text = test::message_of<InPlaceError>([&] { loss.backward(); });
  CHECK(test::contains(text,
                       "one of the variables needed for gradient computation has been "
                       "modified by an inplace operation"));
  CHECK(test::contains(text, "aten::mul saved Float[3, 4] on cpu"));
}

TEST_CASE("in place: with warnings the write is made, and backward says by which operator") {
  struct Heard : c10::WarningHandler {
    std::vector<std::string> texts;
    void process(const c10::Warning& warning) override { texts.push_back(warning.msg()); }
  } heard;
  const c10::WarningUtils::WarningHandlerGuard guard(&heard);
  InPlaceChecker checker({.on_write = OnWrite::Warn});
  const at::Tensor x = leaf();
  at::Tensor h = x.clone();
  const at::Tensor loss = h.exp().mul(h).sum();
  h.div_(2);
  REQUIRE(heard.texts.size() == 1);
  CHECK(test::contains(heard.texts[0], "aten::div_.Scalar writes in place"));
  const auto text = test::message_of<InPlaceError>([&] { loss.backward(); });
  CHECK(test::contains(text, "modified by an inplace operation, written by aten::div_"));
}

TEST_CASE("in place: an optimizer between forward and backward is caught at its write") {
  InPlaceChecker checker({.on_write = OnWrite::Throw});
  torch::nn::Linear layer(4, 4);
  torch::optim::SGD optimizer(layer->parameters(), 0.1);
  const at::Tensor x = leaf();
  layer(x).sum().backward();
  optimizer.step();
  const at::Tensor before = layer->weight.detach().clone();
  const at::Tensor loss = layer(x).sum();
  // LibTorch's SGD writes through `data()`, so that autograd alone would compute wrong gradients.
  const auto text = test::message_of<InPlaceError>([&] { optimizer.step(); });
  CHECK(test::contains(text, "aten::addmm saved Float[4, 4] on cpu: autograd does not see"));
  CHECK(test::same_bits(layer->weight, before));
  loss.backward();
  optimizer.step();
  CHECK_FALSE(test::same_bits(layer->weight, before));
}

struct SquareFunction : torch::autograd::Function<SquareFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x * x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    return {2 * context->get_saved_variables()[0] * gradients[0]};
  }
};

TEST_CASE("in place: custom autograd functions, sparse tensors and gradients of gradients") {
  InPlaceChecker checker({.on_write = OnWrite::Throw});
  const at::Tensor x = leaf();
  at::Tensor h = x.clone();
  at::Tensor loss = SquareFunction::apply(h).sum();
  const auto saved = checker.would_break_backward(h);
  REQUIRE(saved.size() == 1);
  CHECK(saved[0].saved_by == "a custom autograd function");
  CHECK_THROWS_AS(h.add_(1), InPlaceError);
  loss.backward();
  CHECK(test::same_bits(x.grad(), 2 * x.detach()));

  const at::Tensor sparse = at::eye(3).to_sparse();
  loss = at::mm(sparse, x).sum();
  CHECK(checker.would_break_backward(sparse).size() == 1);
  CHECK_THROWS_AS(sparse.mul_(2), InPlaceError);
  loss.backward();

  h = x.clone();
  const auto first = torch::autograd::grad({h.pow(3).sum()}, {h}, {}, true, true)[0];
  CHECK(checker.saved() > 0);
  CHECK_THROWS_AS(h.add_(1), InPlaceError);
  first.sum().backward();
  CHECK(checker.saved() == 0);
}

TEST_CASE("in place: what other threads save is not known, and a graph may end on another thread") {
  InPlaceChecker checker;
  const at::Tensor x = leaf();
  at::Tensor y = x.exp().sum(), other;
  std::thread([&] { other = x.exp().sum(); }).join();
  CHECK(checker.saved() == 1);
  std::thread([&] {
    y.backward();
    y = at::Tensor();
  }).join();
  CHECK(checker.saved() == 0);
}

/// Leaves hooks on the thread that calls it.
void destroy_elsewhere() {
  auto first = std::make_unique<InPlaceChecker>(InPlaceOptions{.on_write = OnWrite::Throw});
  const auto text = test::message_of<Error>([] { InPlaceChecker second; });
  CHECK(test::contains(text, "one is open on this thread already"));
  std::thread([] { InPlaceChecker beside; }).join();
  const at::Tensor x = leaf();
  at::Tensor h = x.clone(), loss = h.exp().mul(h).sum();
  std::thread([&] { first.reset(); }).join();
  h.add_(1);  // no checker throws any more
  CHECK_THROWS_AS(loss.backward(), InPlaceError);
  const InPlaceChecker next;
  CHECK((loss = x.exp().sum(), next.saved()) == 1);
  std::thread([] {
    at::SavedTensorDefaultHooks::disable("no hooks");
    CHECK(test::contains(test::message_of<Error>([] { InPlaceChecker blind; }), "switched off"));
    at::SavedTensorDefaultHooks::enable();
  }).join();
}
TEST_CASE("in place: a second checker, one without hooks, and one that another thread destroys") {
  std::thread(destroy_elsewhere).join();
}

struct OtherEngine : torch::autograd::Engine {
  static torch::autograd::Engine& get() {
    static auto& engine = *new OtherEngine;
    return engine;
  }
};

TEST_CASE("in place: under another engine, whose hooks are its own, making one is an error") {
  torch::autograd::set_default_engine_stub(&OtherEngine::get);
  const auto text = test::message_of<Error>([] { InPlaceChecker checker; });
  torch::autograd::set_default_engine_stub(&torch::autograd::Engine::get_base_engine);
  REQUIRE(bridge::SavedTensorEngineV2::install());
  CHECK(test::contains(text, "OtherEngine"));
  CHECK(InPlaceChecker().saved() == 0);  // no part of the first is left
}

template <class... Policies>
void check_training(Policies... policies) {
  const GPTConfig config{.layers = 2, .width = 32, .heads = 2, .context = 16};
  auto losses = [&](bool checks) {
    torch::manual_seed(0);
    Trainer trainer{GPT(config), AdamW{.lr = 1e-2}, ClipGradNorm{}, LabelUnits{}, policies...};
    std::vector<double> all;
    for (int step = 0; step < 3; ++step) {
      std::optional<InPlaceChecker> checker;
      if (checks) checker.emplace(InPlaceOptions{.on_write = OnWrite::Throw});
      all.push_back(trainer.step(random_batch(config, 4, 16)).loss());
      if (checks) CHECK(checker->saved() == 0);
    }
    return all;
  };
  CHECK(losses(true) == losses(false));
}

TEST_CASE("in place: training writes to nothing that it needs, and computes the same bits") {
  check_training();
  check_training(Checkpoint<Full>{});
  check_training(Checkpoint<Selective>{}, Accumulate<2>{});
  check_training(Precision<BF16>{});
  check_training(EMA{}, Precision<BF16Weights>{});
}

TEST_CASE("in place: LabelUnits names the units of a model") {
  const GPTConfig config{.layers = 2, .width = 32, .heads = 2, .context = 16};
  std::vector<std::string> labels;
  InPlaceChecker checker;
  GPT model(config);
  auto objective = [&](auto& run, GPT& gpt, const Tokens& batch) {
    Loss loss = gpt->loss(run, batch);
    for (const at::Tensor& p : gpt->parameters())
      for (const SavedTensor& saved : checker.would_break_backward(p))
        labels.push_back(saved.label);
    return loss;
  };
  Trainer trainer{model, AdamW{}, objective, LabelUnits{}};
  trainer.step(random_batch(config, 4, 16));
  CHECK(std::count(labels.begin(), labels.end(), "block0") > 4);
  CHECK(std::count(labels.begin(), labels.end(), "block1") > 4);
}

}  // namespace guarantees::in_place
