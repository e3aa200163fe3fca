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
  WELL(
      undone<BadState>(trainer, some(), spoilt(other),
                       {"restore: the state was saved with SGD, and this recipe has AdamW. Nothing",
                        "Restore into the recipe", "load_weights takes the weights alone"}));
  trainer.restore(good);
}

TEST_CASE("bad state: policies that only the state or only the recipe has, by name") {
  auto made = [](auto... policies) { return Trainer{Net(), CrossEntropyLoss{}, policies...}; };
  auto refused = [](auto& trainer, const StateDict& state, const Words& words) {
    for (int s = 0; s < 2; ++s)
      if (auto wrong = undone<BadState>(
              trainer, some(), [&] { trainer.restore(state); }, words);
          !wrong.empty())
        return wrong;
    return std::string();
  };
  auto plain = made(SGD{});
  auto other = made(Combined<AdamW, SGD>{.match = "w.*"});
  auto averaged = made(SGD{}, EMA{});
  auto scaled = made(SGD{}, Precision<FP16>{});
  for (auto step = 0; step < 2; ++step)
    plain.step(some()), other.step(some()), averaged.step(some()), scaled.step(some());
  WELL(refused(plain, averaged.state(), {"saved with EMA, which this recipe does not have. N"}));
  WELL(refused(averaged, plain.state(), {"saved without EMA, which this recipe has. Nothing"}));
  WELL(refused(scaled, averaged.state(),
               {"saved with EMA, and this recipe has Precision<FP16>. N"}));
  WELL(refused(plain, other.state(),
               {"saved with Combined<AdamW, SGD>, and this recipe has SGD. Nothing was changed"}));
  StateDict cut = averaged.state();
  cut.erase("ikebana.SGD.momentum");
  WELL(refused(
      averaged, cut,
      {"restore: `ikebana.SGD.momentum` is missing. Nothing", "the state was saved from."}));
}

TEST_CASE("bad value: an empty path is an error that names the call, and nothing changes") {
  Classifier trainer{Net()};
  trainer.step(some());
  auto refused = [&](const char* call, auto&& f) {
    return undone<BadValue>(trainer, some(), f,
                            {(call + std::string(": the path is empty. Give")).c_str()});
  };
  WELL(refused("save", [&] { trainer.save(""); }));
  WELL(refused("save_async", [&] { trainer.save_async("").wait(); }));
  WELL(refused("save_full", [&] { trainer.save_full(""); }));
  WELL(refused("load", [&] { trainer.load(""); }));
  WELL(refused("save_weights", [&] { trainer.save_weights(""); }));
  WELL(refused("load_weights", [&] { trainer.load_weights(""); }));
  WELL(refused("save_tensors", [&] { save_tensors("", {}); }));
  WELL(refused("load_tensors", [&] { load_tensors(""); }));
}

}  // namespace test::bad
