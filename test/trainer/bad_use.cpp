// Methods called at the wrong time or with nothing to do, and states that do not fit.
#include "test.hpp"

#include <thread>

#include "refused.hpp"

using namespace ikebana;

namespace test::bad {

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
  WELL(undone<Error>(trainer, some(), [&] { trainer.step(some()); }, busy));
  inside = [&] { trainer.evaluate(std::vector{some()}); };
  WELL(undone<Error>(trainer, some(), [&] { trainer.step(some()); }, busy));
  std::string elsewhere;
  inside = [&] {
    std::thread([&] { elsewhere = told<Error>([&] { trainer.step(some()); }, busy); }).join();
  };
  trainer.step(some());
  CHECK(elsewhere == "");
  auto moved = std::move(trainer);
  WELL(told<Error>([&] { trainer.step(some()); }, {"moved from"}));
  WELL(told<Error>([&] { trainer.describe(); }, {"moved from"}));
  moved.step(some());
}

TEST_CASE("bad data: empty loaders, a metric without outputs, a metric that does not fit") {
  Classifier trainer{Net()};
  const std::vector<Rows> none, one = {some()};
  WELL(undone<BadBatch>(trainer, some(), [&] { trainer.fit(none); }, {"no batch", "drop_last"}));
  WELL(undone<BadBatch>(trainer, some(), [&] { trainer.evaluate(none); }, {"nothing to count"}));
  WELL(undone<BadValue>(trainer, some(), [&] { trainer.fit(one, {.batches_per_step = 0}); },
                        {"batches_per_step is 0"}));
  WELL(undone<BadValue>(trainer, some(), [&] { trainer.fit(one, {.epochs = -1}); },
                        {"epochs is -1"}));
  WELL(undone<BadBatch>(trainer, some(), [&] { trainer.evaluate(std::vector{some(0)}); },
                        {"is empty"}));
  Trainer silent{Net(), [](auto& run, Net& model, const Rows& batch) {
                   auto y = model->forward(run, batch.input);
                   return Loss{y.sum(), y.numel()};
                 }};
  WELL(undone<Error>(silent, some(), [&] { silent.evaluate(one, Accuracy{}); },
                     {"`accuracy`", "outputs", "Loss{sum, count, outputs}"}));
  CHECK(silent.model()->is_training());
  auto twice = [&] { trainer.evaluate(one, Accuracy{}, Accuracy{.dim = 1}); };
  WELL(undone<BadValue>(trainer, some(), twice, {"two metrics have the name `accuracy`"}));
  FitOptions<Rows> options{.validate = one, .metrics = {Accuracy{}, Accuracy{.dim = 1}}};
  WELL(undone<BadValue>(trainer, some(), [&] { trainer.fit(one, options); }, {"two metrics"}));
  auto flat = [](const at::Tensor& outputs) {
    Accuracy{}.update(Rows{outputs, at::ones({4, 5})}, outputs);
  };
  WELL(told<BadBatch>([&] { flat(at::ones({4, 5})); }, {"Accuracy", "[4, 5]", "class indices"}));
}

TEST_CASE("bad state: foreign, incomplete, of another shape: nothing is restored") {
  Classifier trainer{Net()};
  trainer.step(some());
  const StateDict good = trainer.state();
  auto spoilt = [&](auto&& spoil) {
    StateDict bad = good;
    spoil(bad);
    bad["block.w.weight"] = at::zeros({3, 3});  // a partial restore would change this
    return [&trainer, bad] { trainer.restore(bad); };
  };
  auto erase = [](StateDict& d) { d.erase("w.bias"); };
  WELL(undone<BadState>(trainer, some(), spoilt(erase), {"`w.bias` is missing"}));
  auto grow = [](StateDict& d) { d["w.bias"] = at::ones({9}); };
  WELL(undone<BadState>(trainer, some(), spoilt(grow), {"`w.bias` is Float[9]", "has Float[5]"}));
  auto widen = [](StateDict& d) { d["w.bias"] = at::ones({5}, at::kDouble); };
  WELL(undone<BadState>(trainer, some(), spoilt(widen), {"Double[5]"}));
  auto add = [](StateDict& d) { d["v"] = at::ones({5}); };
  WELL(undone<BadState>(trainer, some(), spoilt(add), {"`v` belongs to no part"}));
  auto cut = [](StateDict& d) { d["ikebana.trainer.cpu_generator"] = at::ones({5}, at::kByte); };
  WELL(undone<BadState>(trainer, some(), spoilt(cut), {"cpu_generator", "Byte[5]"}));
  auto other = [](StateDict& d) {
    d = Trainer{Net(), CrossEntropyLoss{}, SGD{.momentum = 0.9}}.state();
  };
  WELL(undone<BadState>(trainer, some(), spoilt(other),
                        {"restore", "Restore into the recipe", "is missing; `"}));
  trainer.restore(good);
}

}  // namespace test::bad
