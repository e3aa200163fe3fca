// A module and a buffer that a model has under two names: every policy treats them as modules and
// buffers with one name.
#include "guarantees/guarantees.hpp"

#include "state/folder.hpp"
#include "trainer/compare.hpp"

namespace guarantees::shared_names {

using test::same_bits;
using test::values_of;

/// Says how often the batch norm, the linear layer and the buffer `calls` are registered.
enum class Names { One, Two };

struct NetImpl : torch::nn::Module {
  using units = Units<torch::nn::BatchNorm1d>;
  torch::nn::Linear in{4, 8}, head{8, 3};
  torch::nn::BatchNorm1d norm{8};
  at::Tensor calls = register_buffer("calls", torch::zeros({}));
  explicit NetImpl(Names names) {
    register_module("in", in), register_module("norm", norm), register_module("head", head);
    if (names == Names::One) return;
    register_module("norm_again", norm), register_module("head_again", head);
    register_buffer("calls_again", calls);
  }
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    if (is_training()) calls.add_(1);
    return head(at::relu(run(norm, in(x))));
  }
};
TORCH_MODULE(Net);
Net net(Names names) {
  return seeded([&] { return Net(names); });
}
StateDict copied(StateDict state) {
  for (auto& [name, tensor] : state) tensor = tensor.clone();
  return state;
}
std::vector<Rows> data() { return class_batches(6, 7, 4, 3); }

/// The values that a training with these policies evaluates and saves, and the buffers at its end.
struct Results {
  std::vector<double> losses;
  StateDict state;
  Tensors values;
};
template <class... Policies>
Results trained(Names names, bool updates_bn, const Policies&... policies) {
  Results results;
  auto model = net(names);
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, policies...};
  const auto batches = data();
  auto evaluate = [&] {
    for (int i = 0; i < 3; ++i) results.losses.push_back(trainer.evaluate(batches).loss);
  };
  for (std::size_t s = 0; s < batches.size(); ++s) {
    trainer.step(batches[s]);
    evaluate();
    if (!updates_bn || s % 3 != 1) continue;
    trainer.update_bn(batches);
    CHECK(model->norm->options.momentum() == 0.1);
    evaluate();
  }
  torch::manual_seed(0);  // its state holds that of the generator
  results.state = copied(trainer.state());
  for (const auto& t : {model->norm->running_mean, model->norm->running_var, model->calls})
    results.values.push_back(t.clone());
  return results;
}
template <class... Policies>
void check(bool updates_bn, const Policies&... policies) {
  const Results one = trained(Names::One, updates_bn, policies...);
  const Results two = trained(Names::Two, updates_bn, policies...);
  CHECK(one.losses == two.losses);
  for (std::size_t i = 0; i < one.losses.size(); i += 3) {
    CHECK(one.losses[i] == one.losses[i + 1]);
    CHECK(one.losses[i] == one.losses[i + 2]);
  }
  CHECK(test::same_state(one.state, two.state));
  CHECK(same_bits(one.values, two.values));
}

TEST_CASE("two names: an average is updated once and exchanged there and back") {
  for (const bool updates_bn : {false, true}) {
    check(updates_bn);
    check(updates_bn, EMA{.decay = 0.5});
    check(updates_bn, EMA{.decay = 0.5, .use_buffers = true});
    check(updates_bn, SWA{.every_steps = 2});
    check(updates_bn, SWA{.every_steps = 2, .use_buffers = true});
    check(updates_bn, SWA{.use_buffers = true}, Precision<BF16Weights>{});
  }
}

TEST_CASE("two names: checkpoints, offloading and a layout see one module") {
  check(true, Checkpoint<Full>{}, EMA{.use_buffers = true});
  check(true, Offload<CPU>{}, EMA{.use_buffers = true});
  check(true, Layout<ChannelsLast>{}, SWA{.use_buffers = true});
}

TEST_CASE("two names: buffers that share memory are evaluated and put back, too") {
  auto model = net(Names::One);
  model->register_buffer("view", model->norm->running_mean.narrow(0, 2, 4));
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, EMA{.use_buffers = true}};
  const auto batches = data();
  for (const auto& batch : batches) trainer.step(batch);
  const Tensors before = values_of(model);
  const double loss = trainer.evaluate(batches).loss;
  CHECK(same_bits(values_of(model), before));
  CHECK(trainer.evaluate(batches).loss == loss);
}

TEST_CASE("two names: a step that throws puts each buffer back") {
  auto model = net(Names::Two);
  Trainer trainer{model, CrossEntropyLoss{}, EMA{.use_buffers = true}};
  auto batches = data();
  for (const auto& batch : batches) trainer.step(batch);
  const Tensors before = values_of(model);
  batches[0].target = batches[0].target + 100;
  CHECK_THROWS(trainer.step(batches[0]));
  CHECK(same_bits(values_of(model), before));
}

TEST_CASE("two names: a state of an older version has both, and is loaded") {
  auto made = [](const auto&... policies) {
    auto model = net(Names::Two);
    Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, policies...};
    for (const auto& batch : data()) trainer.step(batch);
    torch::manual_seed(0);
    const StateDict state = copied(trainer.state());
    StateDict older = state;
    for (const auto& [name, tensor] : state) {
      auto add = [&](const std::string& first, const std::string& second) {
        if (const auto at = name.find(first); at != std::string::npos)
          older[std::string(name).replace(at, first.size(), second)] = tensor;
      };
      add("norm.running", "norm_again.running"), add("norm.num", "norm_again.num");
      add("calls", "calls_again");
    }
    CHECK(older.size() > state.size());
    Trainer other{net(Names::Two), CrossEntropyLoss{}, SGD{.lr = 0.1}, policies...};
    other.restore(older);
    CHECK(test::same_state(other.state(), state));
  };
  made();
  made(EMA{.use_buffers = true});
  made(SWA{.use_buffers = true}, Precision<BF16Weights>{});
}

TEST_CASE("two names: weights of a saved state with averaged buffers are read by load_weights") {
  const test::Folder folder;
  auto model = net(Names::Two);
  Trainer trainer{model, CrossEntropyLoss{}, SGD{.lr = 0.1}, EMA{.use_buffers = true}};
  for (const auto& batch : data()) trainer.step(batch);
  trainer.save(folder / "state");
  auto loaded = net(Names::Two);
  load_weights(loaded, folder / "state");
  trainer.with_full_weights(
      [&](auto& averaged) { CHECK(same_bits(values_of(loaded), values_of(averaged))); },
      {.averaged = true});
}

TEST_CASE("two names: what is frozen and moved is counted once") {
  auto model = net(Names::Two);
  Trainer trainer{model, CrossEntropyLoss{}, Freeze<>{.match = "head_again.*"}};
  CHECK(test::contains(trainer.describe(), "2 parameters, 27 elements"));
  for (auto& p : model->parameters()) p.set_requires_grad(false);
  CHECK(test::contains(test::message_of<BadModel>([] {
                         auto frozen = net(Names::Two);
                         for (auto& p : frozen->parameters()) p.set_requires_grad(false);
                         Trainer none{frozen, CrossEntropyLoss{}};
                       }),
                       "all 6 parameters"));
}

TEST_CASE("two names: modules keep their own mode after an evaluation") {
  auto model = net(Names::Two);
  auto other = model->register_module("other", torch::nn::Sequential(model->norm));
  model->norm->eval();
  Trainer trainer{model, CrossEntropyLoss{}};
  trainer.evaluate(data());
  CHECK_FALSE(model->norm->is_training());
  CHECK(model->is_training());
  CHECK(other->is_training());
}

}  // namespace guarantees::shared_names
