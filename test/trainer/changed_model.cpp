// What is registered or replaced after the trainer was made would be neither trained nor saved: an
// error that names it.
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

}  // namespace test::changed_model
