// update_bn computes batch norm's statistics for the weights that are evaluated; training goes on
// as without it, and an error changes nothing.
#include "guarantees/guarantees.hpp"

#include <ikebana/modules/sync_batch_norm.hpp>

#include "state/folder.hpp"
#include "trainer/compare.hpp"

namespace guarantees::update_bn {

using test::contains;
using test::message_of;
using test::same_bits;
using test::values_of;

/// Two batch norms, one without a momentum, a dropout, and a buffer that a forward changes.
struct NetImpl : torch::nn::Module {
  torch::nn::Linear in{4, 8}, head{8, 3};
  torch::nn::BatchNorm1d first{8};
  torch::nn::BatchNorm1d second{torch::nn::BatchNormOptions(8).momentum(std::nullopt)};
  torch::nn::Dropout drop{0.2};
  at::Tensor calls = register_buffer("calls", torch::zeros({}));
  NetImpl() {
    register_module("in", in), register_module("head", head), register_module("first", first);
    register_module("second", second), register_module("drop", drop);
  }
  at::Tensor forward(const at::Tensor& x) {
    if (is_training()) calls.add_(1);
    return head(drop(second(at::relu(first(in(x))))));
  }
};
TORCH_MODULE(Net);
Net net() {
  return seeded([] { return Net(); });
}
std::vector<Rows> data(std::int64_t steps = 6) { return class_batches(steps, 7, 4, 3); }

/// Computes PyTorch's update_bn by hand, on a model of its own with these weights.
Net by_hand(const Tensors& weights, const std::vector<Rows>& loader) {
  torch::NoGradGuard no_grad;
  Net model = net();
  if (weights[0].scalar_type() != at::kFloat) model->to(weights[0].scalar_type());
  std::size_t i = 0;
  for (auto& p : model->parameters()) p.copy_(weights[i++]);
  for (auto norm : {model->first, model->second})
    norm->reset_running_stats(), norm->options.momentum(std::nullopt);
  torch::manual_seed(9);
  for (const Rows& batch : loader) model(batch.input);
  return model;
}
Tensors statistics_of(Net& model) {
  Tensors all;
  for (auto norm : {model->first, model->second})
    for (const auto& t : {norm->running_mean, norm->running_var, norm->num_batches_tracked})
      all.push_back(t.clone());
  return all;
}
template <class Trainer>
Tensors averaged_weights(Trainer& trainer) {
  return trainer.with_full_weights([](auto& model) { return parameters_of(model); },
                                   {.averaged = true});
}
template <class Trainer>
Tensors averaged_statistics(Trainer& trainer) {
  return trainer.with_full_weights([](auto& model) { return statistics_of(model); },
                                   {.averaged = true});
}
template <class Trainer>
void update(Trainer& trainer, const std::vector<Rows>& loader) {
  torch::manual_seed(9);
  trainer.update_bn(loader);
}

template <class Average>
void evaluates_statistics(const Average& average) {
  auto model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.1}, average};
  const auto batches = data();
  for (const auto& batch : batches) trainer.step(batch);
  const Tensors before = values_of(model);
  model->drop->eval();
  update(trainer, batches);
  CHECK(same_bits(values_of(model), before));  // statistics of the training
  CHECK_FALSE(model->drop->is_training());
  model->drop->train();
  CHECK(model->first->options.momentum() == 0.1);
  CHECK_FALSE(model->second->options.momentum().has_value());

  Net expected = by_hand(averaged_weights(trainer), batches);
  CHECK(same_bits(averaged_statistics(trainer), statistics_of(expected)));
  CHECK(trainer.evaluate(batches).loss ==
        Trainer{expected, CrossEntropyLoss{}}.evaluate(batches).loss);
  Trainer other{net(), CrossEntropyLoss{}, AdamW{.lr = 0.1}, average};
  other.restore(trainer.state());
  CHECK(same_bits(averaged_statistics(other), averaged_statistics(trainer)));
  CHECK(same_state(other.state(), trainer.state()));
  const test::Folder folder;
  trainer.save_weights(folder / "weights");
  auto loaded = net();
  load_weights(loaded, folder / "weights");
  CHECK(same_bits(statistics_of(loaded), statistics_of(expected)));
  CHECK(same_bits(parameters_of(loaded), parameters_of(expected)));
}

TEST_CASE("update_bn: an average is evaluated, saved and exported with its own statistics") {
  evaluates_statistics(SWA{.every_steps = 2});
  evaluates_statistics(SWA{.use_buffers = true});
  evaluates_statistics(EMA{.decay = 0.5});
  evaluates_statistics(EMA{.decay = 0.5, .use_buffers = true});
}

TEST_CASE("update_bn: without an average, or before its first, the statistics are the model's") {
  auto check = [](auto&& trainer) {
    const auto batches = data();
    trainer.step(batches[0]);
    update(trainer, batches);
    Net& model = trainer.model();
    Net expected = by_hand(parameters_of(model), batches);
    CHECK(same_bits(statistics_of(model), statistics_of(expected)));
    CHECK(model->calls.item<double>() == 1);  // other buffers are as they were
  };
  check(Trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.1}});
  check(Trainer{net(), CrossEntropyLoss{}, AdamW{.lr = 0.1}, SWA{.start_step = 5}});
}

TEST_CASE("update_bn: training goes on with the same bits, and the next average forgets it") {
  const auto batches = data(8);
  auto train = [&](bool updates) {
    auto model = net();
    Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 0.1}, SWA{.every_steps = 2}};
    for (std::size_t s = 0; s < batches.size(); ++s) {
      torch::manual_seed(s);
      trainer.step(batches[s]);
      if (updates && s % 4 == 1) update(trainer, batches);
      if (!updates) continue;
      const bool has_own = s % 4 == 1 || s % 4 == 2;  // no average is due in the step behind it
      CHECK(same_bits(averaged_statistics(trainer), statistics_of(model)) == !has_own);
    }
    torch::manual_seed(1);
    return trainer.state();
  };
  CHECK(same_state(train(true), train(false)));
}

TEST_CASE("update_bn: an error leaves the trainer as it was") {
  const auto batches = data();
  auto bad = batches;
  bad.back().input = bad.back().input.narrow(1, 0, 2);
  auto check = [&](auto&& trainer, bool has_statistics) {
    for (const auto& batch : batches) trainer.step(batch);
    if (has_statistics) trainer.update_bn(batches);
    torch::manual_seed(3);
    const StateDict state = trainer.state();
    const auto text = message_of<Error>([&] { trainer.update_bn(bad); });
    CHECK(contains(text, "update_bn, after step 6"));
    torch::manual_seed(3);
    CHECK(same_state(trainer.state(), state));
    CHECK(contains(message_of<BadBatch>([&] { trainer.update_bn(std::vector<Rows>()); }),
                   "gave no batch"));
    CHECK(same_state(trainer.state(), state));
    CHECK(trainer.model()->is_training());
    CHECK(trainer.model()->first->options.momentum() == 0.1);
  };
  for (const bool has_statistics : {false, true}) {
    check(Trainer{net(), CrossEntropyLoss{}}, has_statistics);
    check(Trainer{net(), CrossEntropyLoss{}, SWA{}}, has_statistics);
    check(Trainer{net(), CrossEntropyLoss{}, EMA{.use_buffers = true}}, has_statistics);
  }
  auto linear = seeded([] { return torch::nn::Sequential(torch::nn::Linear(4, 3)); });
  Trainer none{linear, CrossEntropyLoss{}};
  CHECK(contains(message_of<BadModel>([&] { none.update_bn(batches); }), "has no batch norm"));
}

TEST_CASE("update_bn: SyncBatchNorm is one, and 16-bit statistics are kept, too") {
  const auto batches = data();
  auto sync = seeded([] {
    return torch::nn::Sequential(torch::nn::Linear(4, 8), modules::SyncBatchNorm(8),
                                 torch::nn::Linear(8, 3));
  });
  Trainer trainer{sync, CrossEntropyLoss{}, SWA{}};
  trainer.step(batches[0]);
  trainer.update_bn(batches);
  trainer.with_full_weights(
      [](auto& model) { CHECK(model->buffers().back().template item<int>() == 6); },
      {.averaged = true});

  auto halves = batches;
  for (Rows& batch : halves) batch.input = batch.input.to(at::kBFloat16);
  auto half = net();
  half->to(at::kBFloat16);
  Trainer narrow{half, CrossEntropyLoss{}, SGD{.lr = 0.1}, SWA{}};
  narrow.step(halves[0]);
  const Tensors before = values_of(half);
  update(narrow, halves);
  CHECK(same_bits(values_of(half), before));
  Net expected = by_hand(averaged_weights(narrow), halves);
  CHECK(same_bits(averaged_statistics(narrow), statistics_of(expected)));
}

}  // namespace guarantees::update_bn
