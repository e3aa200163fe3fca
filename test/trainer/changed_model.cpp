// Modules and parameters that are registered or replaced after the trainer was made would be
// neither trained nor saved: an error names them.
#include "test.hpp"

#include "compare.hpp"

using namespace ikebana;

namespace test::changed_model {

namespace nn = torch::nn;

struct NetImpl : nn::Module {
  nn::Linear body = register_module("body", nn::Linear(3, 3));
  nn::BatchNorm1d norm = register_module("norm", nn::BatchNorm1d(3));
  nn::Linear head = register_module("head", nn::Linear(3, 3));
  at::Tensor forward(const at::Tensor& x) { return head(norm(body(x))); }
};
TORCH_MODULE(Net);

using Batch = std::pair<at::Tensor, at::Tensor>;
Batch batch() { return {random({4, 3}, 1), random({4, 3}, 2)}; }

template <class... Policies>
using TrainerOf = Trainer<Net, SGD, MSELoss, Policies...>;

struct Change {
  std::function<void(NetImpl&)> make;
  Words words;
};
std::vector<Change> changes() {
  return {
      {[](NetImpl& net) { net.head = net.replace_module("head", nn::Linear(3, 3)); },
       {"`head.bias` was replaced", "`head.weight` was replaced", "new trainer"}},
      {[](NetImpl& net) { net.register_module("more", nn::Linear(3, 3)); },
       {"`more.bias` was registered"}},
      {[](NetImpl& net) { net.register_parameter("scale", at::ones({3})); },
       {"`scale` was registered"}},
      {[](NetImpl& net) { net.register_buffer("seen", at::ones({3})); }, {"`seen` was registered"}},
      {[](NetImpl& net) { net.unregister_module("head"); }, {"`head.weight` was unregistered"}},
      {[](NetImpl& net) { net.head->weight = at::rand({3, 3}); },
       {"`head.weight` was assigned", "weight.copy_"}},
      {[](NetImpl& net) { net.norm->running_mean = net.norm->running_mean + 1; },
       {"`norm.running_mean` was assigned"}},
  };
}

/// Each change is named by each call that would train or save another model than the user has.
template <class Trained>
void check_changes() {
  for (const Change& change : changes()) {
    CAPTURE(change.words[0]);
    auto trained = [&](int steps, auto&& use) {
      Net model;
      Trained trainer(model);
      for (int i = 0; i < steps; ++i) trainer.step(batch());
      change.make(*model);
      return told<BadModel>([&] { use(trainer); }, change.words);
    };
    CHECK(trained(0, [](auto& t) { t.step(batch()); }) == "");
    for (int steps : {0, 1}) {
      CHECK(trained(steps, [](auto& t) { t.evaluate(std::vector{batch()}); }) == "");
      CHECK(trained(steps, [](auto& t) { t.state(); }) == "");
      CHECK(trained(steps, [](auto& t) { t.save_weights("/dev/null"); }) == "");
      CHECK(trained(steps, [](auto& t) { t.fit(std::vector{batch()}, {.epochs = 1}); }) == "");
    }
  }
}

TEST_CASE("model: what is replaced or registered after the trainer was made is an error") {
  check_changes<TrainerOf<>>();
  check_changes<TrainerOf<Precision<BF16Weights>>>();
}

TEST_CASE("model: a member that is no registered tensor is an error when the trainer is made") {
  Net model;
  model->head->weight = at::rand({3, 3});
  CHECK(told<BadModel>([&] { TrainerOf<> trainer(model); }, {"`head.weight` was assigned"}) == "");
}

TEST_CASE("model: tied weights, and writes to registered tensors, are no change") {
  Net model;
  model->head->weight = model->body->weight;
  TrainerOf<> trainer(model);
  {
    torch::NoGradGuard no_grad;
    model->body->weight.mul_(2);
    model->norm->running_mean.zero_();
  }
  model->to(at::kFloat);
  CHECK_NOTHROW(trainer.step(batch()));
  CHECK_NOTHROW(trainer.fit(std::vector{batch()}, {.epochs = 1}));
  CHECK_NOTHROW(trainer.evaluate(std::vector{batch()}));
  CHECK_NOTHROW(trainer.state());
}

/// A trained layer, and a frozen parameter that is every second column of `memory`.
struct GappedImpl : nn::Module {
  nn::Linear body = register_module("body", nn::Linear(3, 4));
  at::Tensor memory = at::arange(32, at::kFloat).view({4, 8});
  at::Tensor gapped = register_parameter("gapped", memory.slice(1, 0, 8, 2), false);
  at::Tensor forward(const at::Tensor& x) { return at::matmul(body(x), gapped).narrow(1, 0, 3); }
};
TORCH_MODULE(Gapped);

template <class Optimizer>
void refuses_gaps(const Optimizer& optimizer) {
  Gapped model;
  const at::Tensor memory = model->memory.clone();
  Trainer trainer{model, MSELoss{}, optimizer};
  CHECK_NOTHROW(trainer.step(batch()));
  model->gapped.set_requires_grad(true);
  CHECK(told<BadModel>([&] { trainer.step(batch()); },
                       {"step: `gapped` has gaps or overlaps in memory", "new trainer"}) == "");
  CHECK(same_bits(model->memory, memory));
  CHECK(trainer.steps() == 1);
  model->gapped.set_requires_grad(false);
  CHECK_NOTHROW(trainer.step(batch()));
}

TEST_CASE("model: a frozen parameter with gaps in memory is refused once it is trained") {
  refuses_gaps(SGD{.lr = 0.1});
  refuses_gaps(AdamW{});
  refuses_gaps(RMSprop{.groups = {{.match = named("gapped"), .momentum = 0.9}}});
  refuses_gaps(InBackward<SGD>{});
}

}  // namespace test::changed_model
