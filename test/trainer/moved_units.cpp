// If parameters are moved, a unit that would not be trained is an error that names it, and the
// user's gradient hooks are called.
#include "test.hpp"

#include "mixed.hpp"

using namespace ikebana;

namespace test::moved_units {

using mixed::Frozen;
using mixed::Sample;
using mixed::sample;

/// Two units. A part of the loss says for each microbatch how each of them is called.
enum class Call { Run, Direct, Left, NoGrad, Twice };
struct TwoImpl : torch::nn::Module {
  using units = Units<Frozen>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(6, 6));
  Frozen first = register_module("first", Frozen(true)),
         second = register_module("second", Frozen(true));
  std::vector<std::pair<Call, Call>> calls;  // the calls to run, by microbatch
  std::size_t microbatch = 0;

  template <class Run>
  at::Tensor call(Run& run, Frozen& unit, const at::Tensor& x, Call how) {
    if (how == Call::Left) return x;
    if (how == Call::Direct) return unit(x);
    at::AutoGradMode mode(how != Call::NoGrad);
    return how == Call::Twice ? run(unit, run(unit, x)) : run(unit, x);
  }
  template <class Run>
  Loss loss(Run& run, const Sample& batch) {
    auto [a, b] = microbatch < calls.size() ? calls[microbatch] : std::pair(Call::Run, Call::Run);
    ++microbatch;
    at::Tensor x = call(run, first, embed(batch.input), a);
    x = embed(call(run, second, x, b));
    return {at::mse_loss(x, batch.target, at::Reduction::Sum), batch.target.numel()};
  }
  Count count(const Sample& batch) { return batch.target.numel(); }
};
TORCH_MODULE(Two);

using Moved = Trainer<Two, SGD, Precision<BF16Weights>>;
using Microbatches = std::vector<Sample>;

Two two() {
  torch::manual_seed(0);
  return Two();
}
/// Returns an empty text if a step of two microbatches throws a BadModel with these words, and
/// changes nothing.
std::string refused(Moved& trainer, std::vector<std::pair<Call, Call>> calls, const Words& words) {
  Two model = trainer.model();
  const StateDict before = trainer.state();
  model->microbatch = 0, model->calls = std::move(calls);
  auto step = [&] { trainer.step(Microbatches{sample(1), sample(2)}); };
  const std::string wrong = told<BadModel>(step, words);
  model->calls.clear();
  if (!wrong.empty()) return wrong;
  if (!same(trainer.state(), before)) return "the state changed";
  if (!no_gradients(model)) return "a gradient stayed";
  trainer.step(sample(3));
  return same(trainer.state(), before) ? "the next step did nothing" : "";
}

TEST_CASE("parameters: a unit that is called without run, or not at all, is an error") {
  constexpr auto run = Call::Run, direct = Call::Direct, left = Call::Left;
  const Words unused = {"no microbatch ran unit `second`", "run(unit, x)",
                        "Precision<BF16Weights>{.allow_unused_units = true}"};
  const Words outside = {"`second.w.weight` outside of run", "unit `second`", "run(unit, x)"};
  for (int steps : {0, 1}) {
    CAPTURE(steps);
    auto trained = [&](bool allow) {
      Moved trainer(two(), Precision<BF16Weights>{.allow_unused_units = allow});
      for (int i = 0; i < steps; ++i) trainer.step(sample(i));
      return trainer;
    };
    Moved strict = trained(false), lenient = trained(true);
    CHECK(refused(strict, {{run, left}, {run, left}}, unused) == "");
    CHECK(refused(strict, {{run, direct}, {run, run}}, outside) == "");
    CHECK(refused(strict, {{run, run}, {run, direct}}, outside) == "");
    CHECK(refused(lenient, {{run, direct}, {run, direct}}, outside) == "");
    CHECK(refused(lenient, {{run, left}, {run, direct}}, outside) == "");
  }
}

TEST_CASE("parameters: units that one of the microbatches runs, and frozen ones, are no error") {
  constexpr auto run = Call::Run, left = Call::Left;
  Two model = two();
  auto step = [&](Moved& trainer, std::vector<std::pair<Call, Call>> calls) {
    model->microbatch = 0, model->calls = std::move(calls);
    trainer.step(Microbatches{sample(1), sample(2)});
    trainer.evaluate(Microbatches{sample(1)});
  };
  {
    Moved trainer(model);
    CHECK_NOTHROW(step(trainer, {{run, left}, {left, run}}));
    CHECK_NOTHROW(step(trainer, {{Call::Twice, left}, {run, Call::NoGrad}}));
    model->microbatch = 0, model->calls = {{Call::Direct, left}};
    CHECK_NOTHROW(trainer.evaluate(Microbatches{sample(1)}));
  }
  for (auto& p : model->second->parameters()) p.requires_grad_(false);
  {
    Moved trainer(model);
    CHECK_NOTHROW(step(trainer, {{run, left}, {run, Call::Direct}}));
    model->second->w->weight.requires_grad_(true);
    CHECK(told<BadModel>([&] { trainer.step(sample(1)); },
                         {"`second.w.weight` requires a gradient now", "new trainer"}) == "");
  }
}

TEST_CASE("parameters: a unit that is allowed to be left out is not trained in that step") {
  Two model = two();
  Moved trainer(model, Precision<BF16Weights>{.allow_unused_units = true});
  const StateDict before = trainer.state();
  model->calls = {{Call::Run, Call::Left}};
  trainer.step(sample(1));
  const StateDict after = trainer.state();
  CHECK(same_bits(after.at("second.w.weight"), before.at("second.w.weight")));
  CHECK_FALSE(same_bits(after.at("first.w.weight"), before.at("first.w.weight")));
  for (const auto& p : model->parameters()) CHECK(p.is_leaf());  // between steps
}

TEST_CASE("parameters: a write to a parameter that its master weight does not see is an error") {
  for (bool replaces : {false, true}) {
    Two model = two();
    Moved trainer(model);
    trainer.step(sample(1));
    at::Tensor weight = model->first->w->weight;
    auto write = [&] {
      torch::NoGradGuard no_grad;
      if (replaces) weight.set_data(at::zeros_like(weight));
      else weight.mul_(0.5);
    };
    CHECK_NOTHROW(trainer.with_full_weights([&](Two&) { write(); }));
    CHECK_NOTHROW(trainer.step(sample(1)));
    write();
    const Words words = {"`first.w.weight` was changed", "with_full_weights"};
    CHECK(told<BadModel>([&] { trainer.step(sample(1)); }, words) == "");
    CHECK(told<BadModel>([&] { trainer.state(); }, words) == "");
    CHECK(told<BadModel>([&] { trainer.evaluate(Microbatches{sample(1)}); }, words) == "");
  }
}

TEST_CASE("parameters: gradient hooks are called with the gradients of the master weights") {
  Two model = two();
  std::vector<at::Tensor> seen;
  model->first->w->weight.register_hook([&](const at::Tensor& g) {
    seen.push_back(g.clone());
    return g * 0.5;
  });
  Moved trainer(model, SGD{.lr = 1});
  auto masters = [&] { return trainer.state().at("first.w.weight"); };
  const at::Tensor before = masters();
  model->calls = {{Call::Twice, Call::Run}};
  trainer.step(sample(1));
  REQUIRE(seen.size() == 1);  // one backward pass, in which the unit was run twice
  CHECK((seen[0].scalar_type() == at::kFloat));
  CHECK(at::allclose(masters(), before - seen[0] * 0.5, 0, 1e-6));
  CHECK_FALSE(at::allclose(masters(), before, 0, 1e-3));

  int calls = 0, in_loss = 0;
  unsigned hook = model->second->w->bias.register_hook([&](const at::Tensor&) { ++calls; });
  trainer.step(Microbatches{sample(1), sample(2)});
  CHECK(calls == 2);
  CHECK(seen.size() == 3);
  model->second->w->bias.remove_hook(hook);
  trainer.step(sample(3));
  CHECK(calls == 2);
  model->embed->bias.register_hook([&](const at::Tensor&) { ++in_loss; });
  trainer.step(sample(3));
  CHECK(in_loss == 1);
}

TEST_CASE(
    "parameters: a gradient hook that cannot be called is an error that names its parameter") {
  Two model = two();
  struct Nothing : torch::autograd::PostAccumulateGradHook {
    void operator()(const torch::autograd::Variable&) override {}
  };
  auto& slot = torch::autograd::impl::post_acc_grad_hooks(model->embed->weight);
  const Words words = {"`embed.weight` has a hook that runs after", "register_hook"};
  {
    Moved trainer(model);
    slot = std::make_unique<Nothing>();
    CHECK(told<BadModel>([&] { trainer.step(sample(1)); }, words) == "");
  }
  CHECK(told<BadModel>([&] { Moved trainer(model); }, words) == "");
  slot.reset();
  CHECK_NOTHROW(Moved(model).step(sample(1)));
}

TEST_CASE("parameters: master weights that are no rows of their parameters are an error") {
  mixed::Net net = mixed::net();
  const Tensors before = values_of(net);
  using Flat = Trainer<mixed::Net, mixed::AwayFlat>;
  CHECK(told<BadModel>([&] { Flat trainer(net); },
                       {"made 1 master weights of the 3 parameters", "one for each"}) == "");
  CHECK(same_bits(values_of(net), before));
}

}  // namespace test::moved_units
