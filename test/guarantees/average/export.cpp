// EMA: a trainer exports the weights that it evaluates, and loaded weights restart the average.
#include "guarantees/guarantees.hpp"
#include "state/folder.hpp"

namespace guarantees::average_export {

using test::contains;
using test::Folder;
using test::message_of;

torch::nn::Sequential net(std::uint64_t seed = 3) {
  torch::manual_seed(seed);
  return torch::nn::Sequential(torch::nn::Linear(4, 8), torch::nn::BatchNorm1d(8),
                               torch::nn::Linear(8, 3));
}
std::vector<Rows> data() { return class_batches(4, 7, 4, 3); }
StateDict weights_of(torch::nn::Module& model) {
  StateDict all;
  for (const auto& p : model.named_parameters()) all[p.key()] = p.value().detach().clone();
  for (const auto& b : model.named_buffers()) all[b.key()] = b.value().detach().clone();
  return all;
}
/// Returns the weights that a trainer evaluates, and the weights that it trains.
template <class T>
StateDict averaged(T& trainer) {
  return trainer.with_full_weights([](auto& model) { return weights_of(*model); },
                                   {.averaged = true});
}
template <class T>
StateDict trained_weights(T& trainer) {
  return trainer.with_full_weights([](auto& model) { return weights_of(*model); });
}
double loss_of(const std::filesystem::path& path, const WeightOptions& options = {}) {
  auto model = net(9);
  load_weights(model, path, options);
  return Trainer{model, CrossEntropyLoss{}}.evaluate(data()).loss;
}
/// Returns a state as former versions wrote it: the model's names refer to the trained weights.
StateDict as_before(StateDict state) {
  const std::string prefix = "ikebana.trained.";
  StateDict former = state;
  for (const auto& [name, t] : state) {
    if (!name.starts_with(prefix)) continue;
    const std::string own = name.substr(prefix.size()), average = "ikebana.EMA." + own + ".average";
    if (!state.count(average)) former[average] = state.at(own);
    former[own] = t;
    former.erase(name);
  }
  return former;
}

TEST_CASE("EMA: save_weights writes what evaluate uses, or by a value what is trained") {
  const Folder folder;
  const auto path = folder / "weights", raw = folder / "raw";
  for (const bool buffers : {false, true}) {
    Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.1},
                    EMA{.decay = 0.5, .use_buffers = buffers}};
    trainer.save_weights(path);  // before the first update
    CHECK(same_state(load_tensors(path).tensors, trained_weights(trainer)));
    for (const auto& batch : data()) trainer.step(batch);
    const StateDict state = trainer.state();
    trainer.save_weights(path), trainer.save_weights(raw, {.averaged = false});
    CHECK(same_state(load_tensors(path).tensors, averaged(trainer)));
    CHECK(same_state(load_tensors(raw).tensors, trained_weights(trainer)));
    CHECK_FALSE(same_state(averaged(trainer), trained_weights(trainer)));
    CHECK(loss_of(path) == trainer.evaluate(data()).loss);
    CHECK_THROWS_AS(trainer.save_weights(folder / "none" / "weights"), FileFailed);
    trainer.with_full_weights([&](auto&) { CHECK_THROWS_AS(trainer.save_weights(path), Error); },
                              {.averaged = true});
    CHECK(same_state(trainer.state(), state));
  }
}

TEST_CASE("EMA: a saved state has what evaluate uses under the model's names") {
  const Folder folder;
  const auto path = folder / "state";
  for (const bool buffers : {false, true}) {
    const EMA ema{.decay = 0.5, .use_buffers = buffers};
    Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.1}, ema};
    for (const auto& batch : data()) trainer.step(batch);
    const StateDict state = trainer.state();
    trainer.save(path);
    for (const auto& [name, t] : averaged(trainer)) CHECK(test::same_bits(t, state.at(name)));
    CHECK(loss_of(path) == trainer.evaluate(data()).loss);
    CHECK(loss_of(path, {.averaged = false}) != trainer.evaluate(data()).loss);
    auto model = net(9);
    load_weights(model, path, {.averaged = false});
    CHECK(same_state(weights_of(*model), trained_weights(trainer)));
    for (const StateDict& saved : {state, as_before(state)}) {
      Trainer other{net(7), CrossEntropyLoss{}, AdamW{.lr = 0.1}, ema};
      other.step(data()[0]);
      other.restore(saved);
      CHECK(same_state(other.state(), state));
    }
    Trainer plain{net(7), CrossEntropyLoss{}, AdamW{.lr = 0.1}};
    CHECK(contains(message_of<BadState>([&] { plain.restore(state); }),
                   "restore: the state was saved with EMA, which this recipe does not have. No"));
    const StateDict now = trainer.state();  // with the generator that the models above drew from
    StateDict forged = state;
    forged.erase("0.weight");
    CHECK(
        contains(message_of<BadState>([&] { trainer.restore(forged); }), "`0.weight` is missing"));
    CHECK(same_state(trainer.state(), now));
  }
}

TEST_CASE("EMA: use_buffers may change between steps") {
  Trainer trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.1}, EMA{.decay = 0.5}};
  auto buffer = [](const StateDict& all) { return all.at("1.running_mean"); };
  for (const bool buffers : {true, false, true}) {
    trainer.get<EMA>().use_buffers = buffers;
    for (const auto& batch : data()) trainer.step(batch);
    CHECK(test::same_bits(buffer(averaged(trainer)), buffer(trained_weights(trainer))) != buffers);
  }
}

/// Loads weights into a trainer that has made steps, and compares it with a new one of them.
template <class... Policies>
void starts_anew(Policies... policies) {
  const Folder folder;
  auto made = [&](std::uint64_t seed) {
    return Trainer{net(seed), CrossEntropyLoss{}, SGD{.lr = 0.1}, EMA{.decay = 0.5}, policies...};
  };
  auto batches = data();
  auto other = made(7), trainer = made(3), fresh = made(5);
  for (const auto& batch : batches) trainer.step(batch);
  other.save_weights(folder / "weights");
  save_tensors(folder / "bad", {{"0.weight", at::ones({1})}});

  const StateDict before = trainer.state();
  CHECK_THROWS_AS(trainer.load_weights(folder / "bad"), BadState);
  CHECK_THROWS_AS(trainer.load_weights(folder / "none"), FileFailed);
  trainer.with_full_weights(
      [&](auto&) { CHECK_THROWS_AS(trainer.load_weights(folder / "weights"), Error); },
      {.averaged = true});
  CHECK(same_state(trainer.state(), before));

  trainer.load_weights(folder / "weights"), fresh.load_weights(folder / "weights");
  CHECK(same_state(averaged(trainer), averaged(other)));
  CHECK(trainer.evaluate(batches).loss == other.evaluate(batches).loss);
  for (const auto& batch : batches) {
    trainer.step(batch), fresh.step(batch);
    CHECK(same_state(averaged(trainer), averaged(fresh)));
  }
  CHECK_FALSE(same_state(averaged(trainer), trained_weights(trainer)));
  const StateDict after = trainer.state();
  CHECK(after.at("ikebana.EMA.n_averaged").template item<int>() == 4);
  auto again = made(1);
  again.restore(after);
  CHECK(same_state(again.state(), after));
}

TEST_CASE("EMA: load_weights starts the average anew; one that fails changes nothing") {
  starts_anew();
  starts_anew(Precision<BF16Weights>{});
}

TEST_CASE("EMA: an AnyTrainer exports and loads as its trainer does; without EMA nothing changes") {
  const Folder folder;
  const auto path = folder / "weights", raw = folder / "raw";
  Trainer concrete{net(), CrossEntropyLoss{}, SGD{.lr = 0.1}, EMA{.decay = 0.5}};
  for (const auto& batch : data()) concrete.step(batch);
  const StateDict average = averaged(concrete), weights = trained_weights(concrete);
  AnyTrainer<Rows> any(std::move(concrete));
  any.save_weights(path), any.save_weights(raw, {.averaged = false});
  CHECK(same_state(load_tensors(path).tensors, average));
  CHECK(same_state(load_tensors(raw).tensors, weights));
  any.load_weights(raw);
  any.with_full_weights([&](auto& model) { CHECK(same_state(weights_of(*model), weights)); },
                        {.averaged = true});
  any.replace_weights([](auto& model) { model->to(at::kFloat); });
  Trainer plain{net(), CrossEntropyLoss{}};
  plain.load_weights(path);
  plain.with_full_weights([&](auto&) { plain.save_weights(path); });
  plain.save_weights(raw, {.averaged = false});
  CHECK(same_state(load_tensors(path).tensors, average));
  CHECK(same_state(load_tensors(raw).tensors, average));
}

}  // namespace guarantees::average_export
