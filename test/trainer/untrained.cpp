// A tensor that a loss computes with, that requires a gradient and that nothing trains is an error:
// most often it belongs to a layer that was not registered.
#include "test.hpp"

#include "compare.hpp"

using namespace ikebana;

namespace test::untrained {

namespace nn = torch::nn;

struct BlockImpl : nn::Module {
  nn::Linear in = register_module("in", nn::Linear(3, 3));
  at::Tensor extra;  // a parameter of one's own that was not registered
  at::Tensor forward(const at::Tensor& x) { return extra.defined() ? in(x)*extra : in(x); }
};
TORCH_MODULE(Block);

struct NetImpl : nn::Module {
  using units = Units<Block>;
  Block first = register_module("first", Block()), second = register_module("second", Block());
  nn::Linear head = register_module("head", nn::Linear(3, 3));
  std::vector<nn::Linear> more;  // not registered
  std::function<at::Tensor(const at::Tensor&)> then = [](const at::Tensor& x) { return x; };
  at::Tensor scale = register_buffer("scale", at::ones({}));

  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    at::Tensor y = run(second, run(first, x));
    for (auto& layer : more) y = layer(y);
    return then(head(y)) * scale;
  }
};
TORCH_MODULE(Net);

using Batch = std::pair<at::Tensor, at::Tensor>;
Batch batch() { return {random({4, 3}, 1), random({4, 3}, 2)}; }
const auto same = [](NetImpl&) {};
std::vector<at::Tensor> parameters_of(const Net& model) {
  std::vector<at::Tensor> all;
  for (const auto& p : model->parameters()) all.push_back(p.detach().clone());
  return all;
}
bool has(const std::string& text, const Words& words) {
  const bool all = std::all_of(words.begin(), words.end(),
                               [&](const char* word) { return contains(text, word); });
  if (!all) MESSAGE(text);
  return all;
}

/// Returns the error of the first step of a recipe after `change`, or "".
template <class... Policies>
std::string first_step(const std::function<void(NetImpl&)>& change, Batch rows = batch()) {
  Net model;
  change(*model);
  const auto before = parameters_of(model);
  Trainer<Net, SGD, MSELoss, Policies...> trainer(model);
  const std::string error = message_of([&] { trainer.step(rows); });
  if (error != "")
    trainer.with_full_weights([&](Net& whole) { CHECK(same_bits(whole->parameters(), before)); });
  return error;
}
/// Checks under policies that store parameters and graphs in different ways.
template <class Check>
void each_recipe(const Check& check) {
  check([](auto change, Batch rows = batch()) { return first_step<>(change, rows); });
  check([](auto change, Batch rows = batch()) {
    return first_step<Checkpoint<Full>, Accumulate<2>>(change, rows);
  });
  check([](auto change, Batch rows = batch()) {
    return first_step<Precision<BF16Weights>>(change, rows);
  });
  check([](auto change, Batch rows = batch()) {
    return first_step<Offload<CPU>, Checkpoint<Selective>>(change, rows);
  });
  check([](auto change, Batch rows = batch()) {
    return first_step<Checkpoint<Segments<2>>, Precision<BF16>>(change, rows);
  });
}

TEST_CASE("untrained: a layer that is not registered is an error in the first step") {
  each_recipe([](auto&& error) {
    CHECK(error(same) == "");
    const std::string layers = error([](NetImpl& net) { net.more = {nn::Linear(3, 3)}; });
    CHECK(has(layers, {"nothing trains", "Float[3, 3] on cpu", "Float[3] on cpu", "register_module",
                       "not_trained(tensor)"}));
    const std::string own =
        error([](NetImpl& net) { net.second->extra = torch::ones({3}, torch::requires_grad()); });
    CHECK(has(own, {"nothing trains (Float[3] on cpu, in unit `second`)", "register_parameter"}));
  });
}

TEST_CASE("untrained: what is frozen, declared, or of the batch is no error") {
  each_recipe([](auto&& error) {
    CHECK(error([](NetImpl& net) {
            net.more = {nn::Linear(3, 3)};
            for (auto& p : net.more[0]->parameters()) p.requires_grad_(false);
          }) == "");
    CHECK(error([](NetImpl& net) {
            net.second->extra = torch::ones({3}, torch::requires_grad());
            not_trained(net.second->extra);
          }) == "");
    Batch of_leaves = batch();
    of_leaves.first.requires_grad_();
    CHECK(error(same, of_leaves) == "");
    of_leaves.first = at::cat({of_leaves.first * 2, of_leaves.second.requires_grad_()});
    of_leaves.second = at::cat({of_leaves.second, of_leaves.second}).detach();
    CHECK(error(same, of_leaves) == "");
  });
  CHECK(told<BadValue>([] { not_trained({}); }, {"undefined"}) == "");
}

/// Computes a gradient penalty, whose input is a leaf that the forward makes.
at::Tensor penalty(const at::Tensor& y) {
  const at::Tensor point = y.detach().clone().requires_grad_();
  const at::Tensor more = torch::ones({3}, torch::requires_grad()),
                   value = (point * more).square().sum();
  return y + torch::autograd::grad({value}, {point}, {}, {}, true)[0] * 1e-3;
}

TEST_CASE("untrained: what the forward itself makes is no error, in any step and microbatch") {
  each_recipe([](auto&& error) { CHECK(error([](NetImpl& net) { net.then = penalty; }) == ""); });
  Net model;
  model->then = penalty;
  Trainer<Net, SGD, MSELoss, Accumulate<2>> trainer(model);
  for (int i = 0; i < 4; ++i) CHECK_NOTHROW(trainer.step(batch()));
}

TEST_CASE("untrained: what a later step is the first to use is an error at its second use") {
  for (bool penalized : {false, true}) {
    Net model;
    if (penalized) model->then = penalty;
    Trainer<Net, SGD, MSELoss> trainer(model);
    for (int i = 0; i < 2; ++i) trainer.step(batch());
    model->first->extra = torch::ones({3}, torch::requires_grad());
    CHECK_NOTHROW(trainer.step(batch()));
    const auto before = parameters_of(model);
    for (int i = 0; i < 2; ++i)
      CHECK(told<BadModel>([&] { trainer.step(batch()); },
                           {penalized && i == 0 ? "Float[3] on cpu" : "in unit `first`"}) == "");
    CHECK(same_bits(model->parameters(), before));
    model->first->extra.requires_grad_(false);
    CHECK_NOTHROW(trainer.step(batch()));
    CHECK(trainer.steps() == 4);
  }
}

TEST_CASE("untrained: another model in the loss is trained by another trainer, or an error") {
  Net model, judge;
  auto objective = [&](auto& run, auto& net, const Batch& b) {
    const at::Tensor y = judge->forward(plain, run(net, b.first));
    return Loss{(y - b.second).square().sum(), b.second.numel()};
  };
  Trainer trainer{model, objective, SGD{}};
  CHECK(told<BadModel>([&] { trainer.step(batch()); },
                       {"Float[3, 3] on cpu", "and 2 more", "requires_grad_(false)"}) == "");
  {
    Trainer<Net, SGD, MSELoss> other(judge);
    for (int i = 0; i < 2; ++i) {
      CHECK_NOTHROW(trainer.step(batch()));
      other.step(batch());
    }
  }
  Net third;
  Trainer<Net, SGD, MSELoss, Precision<BF16Weights>> of_third(third);
  judge = third;
  for (int i = 0; i < 2; ++i) CHECK_NOTHROW(of_third.step(batch()));
}

TEST_CASE("untrained: a buffer that requires a gradient is an error that names it") {
  CHECK(has(first_step<>([](NetImpl& net) { net.scale.requires_grad_(); }),
            {"the buffer `scale` requires a gradient", "register_parameter"}));
}

TEST_CASE("untrained: InBackward updates nothing before the error") {
  Net model;
  model->more = {nn::Linear(3, 3)};
  Trainer<Net, InBackward<SGD>, MSELoss> trainer(model);
  const auto before = parameters_of(model);
  CHECK(told<BadModel>([&] { trainer.step(batch()); }, {"nothing trains"}) == "");
  CHECK(same_bits(model->parameters(), before));
}

}  // namespace test::untrained
