// Everything one can get wrong gives one clear error, and leaves the trainer as it was and usable.
#include "test.hpp"

#include <ikebana.hpp>
#include <thread>

using namespace ikebana;

namespace {

struct Rows {
  at::Tensor input, target;
};
struct BlockImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 3));
  at::Tensor forward(const at::Tensor& x) { return at::tanh(w(x)); }
};
TORCH_MODULE(Block);
struct NetImpl : torch::nn::Module {
  using units = Units<Block>;
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 5));
  Block block = register_module("block", Block());
  template <class Run>
  at::Tensor forward(Run& run, const at::Tensor& x) {
    return w(run(block, x));
  }
};
TORCH_MODULE(Net);
struct EmptyImpl : torch::nn::Module {
  template <class Run>
  Loss loss(Run&, const Rows& batch) {
    return {batch.input.sum(), 1};
  }
};
TORCH_MODULE(Empty);

Rows some(std::int64_t n = 4) { return {at::ones({n, 3}), at::arange(n) % 5}; }
using Classifier = Trainer<Net, CrossEntropyLoss>;

template <class E, class Batch>
std::string refused(const Batch& batch, const Words& words) {
  Classifier trainer{Net()};
  for (int steps = 0; steps < 2; ++steps) {  // at the first step, and later
    std::string wrong = undone<E>(
        trainer, [&] { trainer.step(batch); }, words);
    if (!wrong.empty()) return wrong;
  }
  return {};
}
template <class F>
std::string refused_loss(F loss, const Words& words) {
  bool bad = false;
  auto objective = [&](auto& run, Net& model, const Rows& batch) {
    if (bad) return loss(run, model, batch);
    auto y = model->forward(run, batch.input);
    return Loss{y.pow(2).sum(), y.numel(), y};
  };
  Trainer trainer{Net(), objective};
  for (int steps = 0; steps < 2; ++steps) {
    bad = true;
    auto step = [&] { trainer.step(some()), bad = false; };
    auto restored = [&] {
      try {
        step();
      } catch (...) {
        bad = false;
        throw;
      }
    };
    std::string wrong = undone<BadModel>(trainer, some(), restored, words);
    if (!wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

TEST_CASE("bad batch: empty, of different sizes, of no tensors, of no batches") {
  CHECK(refused<BadBatch>(
            some(0), {"batch: it is empty", "input Float[0, 3] on cpu", "at least one"}) == "");
  CHECK(refused<BadBatch>(Rows{at::ones({4, 3}), at::arange(5)},
                          {"different size in dimension 0", "input Float[4, 3]", "target Long[5]",
                           "same number of rows"}) == "");
  CHECK(refused<BadBatch>(Rows{}, {"no tensor", "input (undefined)"}) == "");
  CHECK(refused<BadBatch>(std::vector<Rows>{}, {"holds no batch", "Give one"}) == "");
  CHECK(refused<BadBatch>(std::vector{some(), some(0)}, {"is empty", "input Float[0, 3]"}) == "");
  CHECK(refused<BadBatch>(Rows{at::ones({4, 3}), at::full({4}, -100)},
                          {"counts 0", "ignored", "skip"}) == "");
}

TEST_CASE("bad batch: another type, shape or device, a target out of range") {
  Rows wide = some(), twofold = some(), meta = some(), beyond = some();
  wide.input = at::ones({4, 9});
  twofold.input = at::ones({4, 3}, at::kDouble);
  meta.input = at::ones({4, 3}, at::kMeta);
  beyond.target = at::full({4}, 7);
  CHECK(refused<StepFailed>(twofold, {"same dtype", "input Double[4, 3] on cpu",
                                      "Nothing was updated", "Convert"}) == "");
  CHECK(refused<StepFailed>(wide, {"9", "input Float[4, 9]", "microbatch 1 of 1", "shapes"}) == "");
  CHECK(refused<StepFailed>(meta, {"meta", "input Float[4, 3] on meta", "Nothing was updated"}) ==
        "");
  CHECK(refused<StepFailed>(beyond,
                            {"Target 7 is out of bounds", "target Long[4]", "classes - 1"}) == "");
  CHECK(refused<StepFailed>(std::vector{some(), beyond},
                            {"microbatch 2 of 2", "range of batches"}) == "");
}

TEST_CASE("bad batch: a loss that is not finite, at the first step as later") {
  Rows nan = some(), huge = some();
  nan.input[0][0] = NAN;
  huge.input.fill_(3e38);
  CHECK(refused<NonFinite>(nan, {"loss is not finite", "nothing was updated", "learning rate"}) ==
        "");
  CHECK(refused<NonFinite>(std::vector{some(), nan}, {"loss is not finite"}) == "");
}

TEST_CASE("bad loss: a vector, a constant, nothing at all, no count, another count than told") {
  auto out = [](auto& run, Net& model, const Rows& b) { return model->forward(run, b.input); };
  CHECK(refused_loss(
            [&](auto& run, Net& model, const Rows& b) {
              return Loss{out(run, model, b).sum(1), 4};
            },
            {"shape [4]", "not one number", "Sum"}) == "");
  CHECK(refused_loss(
            [](auto&, Net&, const Rows& b) {
              return Loss{b.input.sum(), 4};
            },
            {"depends on no parameter"}) == "");
  CHECK(refused_loss([](auto&, Net&, const Rows&) { return Loss{}; },
                     {"empty", "Loss{sum, count}"}) == "");
  CHECK(refused_loss(
            [](auto&, Net&, const Rows& b) {
              return Loss{at::ones({}).requires_grad_() * b.input.sum(), 4};
            },
            {"no parameter"}) == "");
  Trainer zero{Net(), [&](auto& run, Net& model, const Rows& b) {
                 return Loss{out(run, model, b).sum(), 0};
               }};
  CHECK(told<BadBatch>([&] { zero.step(some()); }, {"counts 0", "items"}) == "");
  CHECK(zero.steps() == 0);
}

TEST_CASE("bad model: none, nothing to train, two devices, two trainers, units that came later") {
  CHECK(told<BadModel>([] { Trainer<Empty>{Empty()}; }, {"no parameters", "register_module"}) ==
        "");
  CHECK(told<BadModel>([] { Trainer<std::shared_ptr<NetImpl>, CrossEntropyLoss>(nullptr); },
                       {"empty"}) == "");
  CHECK(told<BadModel>([] { Classifier(Net(nullptr)); }, {"empty"}) == "");
  Net frozen;
  for (auto& p : frozen->parameters()) p.requires_grad_(false);
  CHECK(told<BadModel>([&] { Classifier{frozen}; },
                       {"all 4 parameters", "frozen", "requires_grad"}) == "");
  Net split;
  split->register_parameter("extra", at::empty({2}, at::kMeta));
  CHECK(told<BadModel>([&] { Classifier{split}; },
                       {"`extra` is on meta", "`w.weight` on cpu", "On"}) == "");

  Net model;
  Classifier first(model);
  CHECK(undone<BadModel>(first, [&] { Trainer<Net, MSELoss>{model}; },
                         {"another trainer", "Destroy"}) == "");
  Block late;
  auto runs_late = [&](auto& run, Net& net, const Rows& batch) {
    auto y = net->w(run(late, batch.input));
    return Loss{y.sum(), y.numel()};
  };
  Trainer second{Net(), runs_late};
  CHECK(told<BadModel>([&] { second.step(some()); },
                       {"Block", "not one of the model's units", "before the trainer"}) == "");
  second.model()->register_module("late", late);
  CHECK(told<BadModel>([&] { second.step(some()); }, {"not one of the model's units"}) == "");
}

TEST_CASE("bad value: at construction, and through get") {
  Net net;
  auto makes = [&](auto... values) { return [=] { Trainer{net, CrossEntropyLoss{}, values...}; }; };
  CHECK(told<BadValue>(makes(AdamW{.lr = -1}), {"lr is -1", "not negative"}) == "");
  CHECK(told<BadValue>(makes(SGD{.lr = NAN}), {"lr is nan", "finite"}) == "");
  CHECK(told<BadValue>(makes(SGD{.momentum = -1}), {"momentum"}) == "");
  CHECK(told<BadValue>(makes(AdamW{.betas = {0.9, 1}}), {"betas", "[0, 1)"}) == "");
  CHECK(told<BadValue>(makes(Accumulate<>{}),
                       {"microbatches is 0", "at least one", "{.microbatches = 8}"}) == "");
  CHECK(told<BadValue>(makes(CosineAnnealingLR{}), {"T_max is not given", "{.T_max = steps}"}) ==
        "");
  CHECK(told<BadValue>(makes(LinearLR{}), {"total_iters is not given", "{.total_iters = steps}"}) ==
        "");
  CHECK(told<BadValue>(makes(ClipGradNorm{.max_norm = 0}), {"max_norm is 0", "positive"}) == "");
  CHECK(told<BadValue>(makes(Precision<FP16>{.backoff_factor = 2}), {"backoff_factor"}) == "");
  Group lost{.match = named("nowhere.*"), .lr = 1.0};
  auto steps_with_lost = [&] {
    Trainer{net, CrossEntropyLoss{}, AdamW{.groups = {lost}}}.step(some());
  };
  CHECK(told<BadValue>(steps_with_lost, {"group 0 matches no parameter", "rule"}) == "");

  Trainer<Net, CrossEntropyLoss, Accumulate<>, ClipGradNorm> trainer(
      net, Accumulate<>{.microbatches = 2});
  auto set = [&](auto& value, auto bad) {
    return [&, bad] {
      struct Restore {
        std::decay_t<decltype(value)>& place;
        std::decay_t<decltype(value)> good;
        ~Restore() { place = good; }
      } restore{value, value};
      value = bad;
      trainer.step(some());
    };
  };
  CHECK(undone<BadValue>(trainer, set(trainer.get<AdamW>().lr, -0.5), {"lr is -0.5"}) == "");
  CHECK(undone<BadValue>(trainer, set(trainer.get<AdamW>().lr, INFINITY), {"lr is inf"}) == "");
  CHECK(undone<BadValue>(trainer, set(trainer.get<ClipGradNorm>().max_norm, -1.0),
                         {"max_norm is -1"}) == "");
  CHECK(undone<BadValue>(trainer, set(trainer.get<Accumulate<>>().microbatches, 0),
                         {"microbatches is 0"}) == "");
}

TEST_CASE("bad use: a step inside a step, from another thread, after a move") {
  std::function<void()> inside;
  auto objective = [&](auto& run, Net& model, const Rows& batch) {
    if (inside) std::exchange(inside, {})();
    auto y = model->forward(run, batch.input);
    return Loss{y.sum(), y.numel()};
  };
  Trainer trainer{Net(), objective};
  Words busy = {"middle of a step", "one thread at a time"};
  inside = [&] { trainer.step(some()); };
  CHECK(undone<Error>(
            trainer, [&] { trainer.step(some()); }, busy) == "");
  inside = [&] { trainer.evaluate(std::vector{some()}); };
  CHECK(undone<Error>(
            trainer, [&] { trainer.step(some()); }, busy) == "");
  std::string elsewhere;
  inside = [&] {
    std::thread([&] { elsewhere = told<Error>([&] { trainer.step(some()); }, busy); }).join();
  };
  trainer.step(some());
  CHECK(elsewhere == "");
  auto moved = std::move(trainer);
  CHECK(told<Error>([&] { trainer.step(some()); }, {"moved from"}) == "");
  CHECK(told<Error>([&] { trainer.describe(); }, {"moved from"}) == "");
  moved.step(some());
}

TEST_CASE("bad data: empty loaders, a metric without outputs, a metric that does not fit") {
  Classifier trainer{Net()};
  const std::vector<Rows> none, one = {some()};
  CHECK(undone<BadBatch>(trainer, [&] { trainer.fit(none); }, {"no batch", "drop_last"}) == "");
  CHECK(undone<BadBatch>(trainer, [&] { trainer.evaluate(none); }, {"nothing to count"}) == "");
  CHECK(undone<BadValue>(trainer, [&] { trainer.fit(one, {.batches_per_step = 0}); },
                         {"batches_per_step 0"}) == "");
  CHECK(undone<BadValue>(trainer, [&] { trainer.fit(one, {.epochs = -1}); }, {"epochs is -1"}) ==
        "");
  CHECK(undone<BadBatch>(trainer, [&] { trainer.evaluate(std::vector{some(0)}); }, {"is empty"}) ==
        "");
  Trainer silent{Net(), [](auto& run, Net& model, const Rows& batch) {
                   auto y = model->forward(run, batch.input);
                   return Loss{y.sum(), y.numel()};
                 }};
  CHECK(undone<Error>(silent, [&] { silent.evaluate(one, Accuracy{}); },
                      {"`accuracy`", "outputs", "Loss{sum, count, outputs}"}) == "");
  CHECK(silent.model()->is_training());
  auto flat = [](const at::Tensor& outputs) {
    Accuracy{}.update(Rows{outputs, at::ones({4, 5})}, outputs);
  };
  CHECK(told<BadBatch>(
            [&] {
              flat(at::ones({4, 5}));
            },
            {"Accuracy", "[4, 5]", "class indices"}) == "");
}

TEST_CASE("bad state: foreign, incomplete, of another shape; nothing is restored") {
  Classifier trainer{Net()};
  trainer.step(some());
  const StateDict good = trainer.state();
  auto spoilt = [&](auto&& spoil) {
    StateDict bad = good;
    spoil(bad);
    bad["model.block.w.weight"] = at::zeros({3, 3});  // would be seen if anything were loaded
    return [&trainer, bad] { trainer.restore(bad); };
  };
  auto erase = [](StateDict& d) { d.erase("model.w.bias"); };
  CHECK(undone<BadState>(trainer, spoilt(erase), {"`model.w.bias` is missing"}) == "");
  auto grow = [](StateDict& d) { d["model.w.bias"] = at::ones({9}); };
  CHECK(undone<BadState>(trainer, spoilt(grow), {"`model.w.bias` is Float[9]", "has Float[5]"}) ==
        "");
  auto widen = [](StateDict& d) { d["model.w.bias"] = at::ones({5}, at::kDouble); };
  CHECK(undone<BadState>(trainer, spoilt(widen), {"Double[5]"}) == "");
  auto add = [](StateDict& d) { d["model.v"] = at::ones({5}); };
  CHECK(undone<BadState>(trainer, spoilt(add), {"`model.v` belongs to no part"}) == "");
  auto cut = [](StateDict& d) { d["trainer.cpu_generator"] = at::ones({5}, at::kByte); };
  CHECK(undone<BadState>(trainer, spoilt(cut), {"cpu_generator", "Byte[5]"}) == "");
  auto other = [](StateDict& d) {
    d = Trainer{Net(), CrossEntropyLoss{}, SGD{.momentum = 0.9}}.state();
  };
  CHECK(undone<BadState>(trainer, spoilt(other), {"restore", "Restore into the recipe"}) == "");
  trainer.restore(good);
}
