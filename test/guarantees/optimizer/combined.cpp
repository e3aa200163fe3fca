// Combined: each of two optimizers updates its own parameters as if it were alone.
#include "test.hpp"

#include "guarantees/zoo.hpp"
#include "shapes.hpp"

namespace guarantees::combined {

/// An embedding with sparse gradients, a matrix, and vectors.
struct TextsImpl : torch::nn::Module {
  torch::nn::Embedding table{torch::nn::EmbeddingOptions(12, width).sparse(true)};
  torch::nn::Linear head{width, classes};
  TextsImpl() { register_module("table", table), register_module("head", head); }
  at::Tensor forward(const at::Tensor& x) { return head(table(x)); }
};
TORCH_MODULE(Texts);

std::vector<Rows> texts(int steps) {
  torch::manual_seed(8);
  std::vector<Rows> all;
  for (int s = 0; s < steps; ++s)
    all.push_back({torch::randint(12, {10}, at::kLong), torch::randint(classes, {10}, at::kLong)});
  return all;
}

/// An optimizer's mechanism with some of a model's parameters.
template <class Policy>
struct ByHand {
  Mechanism<Policy> mechanism;
  Masters masters;
  ByHand(Policy policy, Texts& model, const ParameterRule& own) : mechanism(policy) {
    for (auto& item : model->named_parameters())
      if (own(item.key(), item.value()))
        masters.names.push_back(item.key()), masters.values.push_back(item.value());
    mechanism.begin(masters);
  }
  void step(double factor) {
    StepGradients gradients;
    gradients.collect(masters.values);
    mechanism.prepare(masters, gradients, [&](double lr) { return lr * factor; });
    mechanism.update(masters, gradients);
  }
};

/// Returns the parameters after a loop with two optimizers, which sets their rates to
/// `factor(step)` times their lr.
template <class First, class Rest>
Tensors by_hand(First first, Rest rest, const ParameterRule& match) {
  Texts model = seeded([] { return Texts(); });
  ByHand<First> one(first, model, match);
  ByHand<Rest> other(rest, model, [&](auto& name, auto& p) { return !match(name, p); });
  int s = 0;
  for (const Rows& batch : texts(8)) {
    model->zero_grad();
    at::cross_entropy_loss(model->forward(batch.input), batch.target).backward();
    const double factor = s++ < 4 ? 1 : 0.5;
    one.step(factor), other.step(factor);
  }
  return parameters_of(model);
}
template <class First, class Rest>
void equals_by_hand(Combined<First, Rest> policy, const ParameterRule& match) {
  Texts model = seeded([] { return Texts(); });
  Tensors before = parameters_of(model);
  Trainer trainer{model, CrossEntropyLoss{}, policy, StepLR{.step_size = 4, .gamma = 0.5}};
  for (const Rows& batch : texts(8)) trainer.step(batch);
  CHECK(test::same_bits(parameters_of(model), by_hand(policy.first, policy.rest, match)));
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK_FALSE(test::same_bits({before[i]}, {parameters_of(model)[i]}));
}

TEST_CASE("combined optimizers: the bits of a loop with two, by hand") {
  const ParameterRule table = named("table.*"), matrix = named("head.weight");
  // The parameters that the first can update need no rule.
  equals_by_hand(Combined<SparseAdam, Adagrad>{.first = {.lr = 0.05}, .rest = {.lr = 0.1}}, table);
  equals_by_hand(Combined<Adagrad, SparseAdam>{.match = named("head.*"), .first = {.lr = 0.1}},
                 named("head.*"));
  // There are three optimizers, because an optimizer of Combined may be Combined.
  Combined<SparseAdam, Combined<Muon, Lion>> three{.first = {.lr = 0.05},
                                                   .rest = {.first = {.lr = 0.02}}};
  Texts model = seeded([] { return Texts(); });
  Trainer trainer{model, CrossEntropyLoss{}, three};
  for (const Rows& batch : texts(3)) trainer.step(batch);
  StateDict state = trainer.state();
  const std::string prefix = "ikebana.Combined<SparseAdam, Combined<Muon, Lion>>.";
  CHECK(state.count(prefix + "first.table.weight.exp_avg") == 1);
  CHECK(state.count(prefix + "rest.first.head.weight.momentum_buffer") == 1);
  CHECK(state.count(prefix + "rest.rest.head.bias.exp_avg") == 1);
}

TEST_CASE("combined optimizers: two of PyTorch's, in double precision") {
  Shapes hand(at::kDouble), model(at::kDouble);
  std::array<Tensors, 2> parts;
  for (auto& item : hand->named_parameters())
    parts[item.key() == "conv_weight" || item.key() == "lonely" ? 0 : 1].push_back(item.value());
  torch::optim::AdamW adamw(parts[0], torch::optim::AdamWOptions(0.05).weight_decay(0.1));
  torch::optim::SGD sgd(parts[1], torch::optim::SGDOptions(0.1).momentum(0.9));
  Combined<AdamW, SGD> both{.match = named("conv_weight", "lonely"),
                            .first = {.lr = 0.05, .weight_decay = 0.1},
                            .rest = {.lr = 0.1, .momentum = 0.9}};
  Trainer<Shapes, Combined<AdamW, SGD>, Pulls> trainer(model, both);
  for (int s = 0; s < 12; ++s) {
    CAPTURE(s);
    auto all = hand->parameters();
    for (std::size_t i = 0; i < all.size(); ++i) all[i].mutable_grad() = pull(all[i], i, s);
    adamw.step(), sgd.step();
    trainer.step(torch::ones({1}));
    CHECK(test::worst_relative(parameters_of(model), parameters_of(hand)) <= 1e-12);
    if (s != 5) continue;
    auto& values = trainer.get<Combined<AdamW, SGD>>();
    values.first.lr = 0.01, values.rest.momentum = 0.5;
    static_cast<torch::optim::AdamWOptions&>(adamw.param_groups()[0].options()).lr(0.01);
    static_cast<torch::optim::SGDOptions&>(sgd.param_groups()[0].options()).momentum(0.5);
  }
}

/// AdamW for some parameters and AdamW for the others is AdamW, whatever else is in the recipe.
template <class... Words>
void same_as_one(const std::string& what, Words... words) {
  INFO(what);
  const AdamW one{.lr = 0.01, .groups = {no_decay()}};
  const Combined<AdamW, AdamW> two{.match = named("a.*", "head.*"), .first = one, .rest = one};
  auto run = [&](auto policy) {
    auto model = seeded([] { return Zoo(Kind::Chain); });
    return trained(Trainer<Zoo, decltype(policy), Words...>(model, policy, words...),
                   class_batches(6, 6, width, classes));
  };
  auto alone = run(one);
  CHECK(moved(alone, 6));
  CHECK(test::same_bits(run(two), alone));
}
TEST_CASE("combined optimizers: two of a kind are one, whatever else is in the recipe") {
  same_as_one("clipping", ClipGradNorm{.max_norm = 0.1}, Accumulate<2>{});
  same_as_one("FP16, with steps that are skipped",
              Precision<FP16>{.init_scale = 1e30, .growth_interval = 2}, EMA{.decay = 0.5});
  same_as_one("BF16True", Precision<BF16True>{});
  same_as_one("BF16Weights", Precision<BF16Weights>{.allow_unused_units = true}, Freeze<Nest>{});
}

TEST_CASE("combined optimizers: a state is restored to the bit, values included") {
  auto make = [] {
    Combined<Muon, Lion> both{.first = {.lr = 0.02, .groups = {{.match = named("head.*")}}},
                              .rest = {.lr = 1e-3}};
    return Trainer{seeded([] { return Zoo(Kind::Chain); }), both};
  };
  auto one = make(), two = make();
  auto batches = class_batches(6, 6, width, classes);
  StateDict half;
  for (std::size_t s = 0; s < 6; ++s) {
    if (s == 2) one.get<Combined<Muon, Lion>>().rest.lr = 1e-4;
    if (s == 2) one.get<Combined<Muon, Lion>>().first.groups[0].lr = 0.1;
    if (s == 3) half = one.state();
    CHECK(one.step(batches[s]).learning_rate == 0.02);
  }
  two.get<Combined<Muon, Lion>>().first.groups[0].lr = 7;
  two.restore(half);
  CHECK(two.get<Combined<Muon, Lion>>().rest.lr == 1e-4);
  CHECK(two.get<Combined<Muon, Lion>>().first.groups[0].lr == 0.1);
  for (std::size_t s = 3; s < 6; ++s) two.step(batches[s]);
  CHECK(same_state(one.state(), two.state()));
  CHECK(test::contains(one.describe(), "Combined<Muon, Lion>  {first Muon {lr=0.02"));
  CHECK(test::contains(one.describe(), "rest Lion {lr=0.0001"));
}

template <class Policy>
std::string refused(Policy policy) {
  return test::message_of<BadValue>(
      [&] { Trainer<Texts, CrossEntropyLoss, Policy>(Texts(), policy); });
}
TEST_CASE("combined optimizers: what would leave a parameter or an optimizer out is an error") {
  using test::contains;
  CHECK(contains(refused(Combined<AdamW, SGD>{}), "`match` is empty. Give it the rule"));
  CHECK(contains(refused(Combined<AdamW, SGD>{.match = named("nobody")}),
                 "no parameter is for AdamW (`nobody`; of 3 names, the nearest are `"));
  CHECK(contains(refused(Combined<AdamW, SGD>{.match = named("*")}),
                 "all 3 parameters are for AdamW. Correct `match`"));
  CHECK(contains(refused(Combined<Muon, Lion>{.match = named("head.bias")}),
                 "no parameter is for Muon"));
  CHECK(contains(refused(Combined<Lion, Muon>{.match = named("table.*")}),
                 "no optimizer is for `head.bias` of shape [5]: Muon is `rest`"));
  CHECK(contains(refused(Combined<Muon, Lion>{.first = {.otherwise = {.lr = 1}}}),
                 "`otherwise` of Muon is set"));
  CHECK(contains(refused(Combined<Muon, Lion>{.first = {.groups = {no_decay()}}}),
                 "group 0 matches no parameter (of "));
  CHECK(contains(refused(Combined<Muon, Lion>{.rest = {.lr = -1}}), "lr is -1"));
}

TEST_CASE("combined optimizers: a rule that is changed between steps is an error") {
  const Rows batch = texts(1)[0];
  auto told = [&](auto policy, auto change) {
    Trainer trainer{Texts(), CrossEntropyLoss{}, policy};
    trainer.step(batch);
    auto before = trainer.state();
    change(trainer.template get<decltype(policy)>());
    auto text = test::message_of<BadValue>([&] { trainer.step(batch); });
    CHECK(test::same_bits(trainer.state()["head.bias"], before["head.bias"]));
    return text;
  };
  const Combined<SparseAdam, SGD> tables;
  CHECK(test::contains(told(tables, [](auto& v) { v.match = named("head.*"); }),
                       "no longer true for `table.weight`"));
  auto dense = [](auto&, Texts& model, const Rows&) {
    return Loss{model->head->weight.square().sum() + model->head->bias.sum(), 1};
  };
  Trainer muon{Texts(), dense, Muon{}};
  muon.step(batch);
  muon.get<Muon>().match = named("head.*");
  CHECK(test::contains(test::message_of<BadValue>([&] { muon.step(batch); }),
                       "gives `table.weight` to another optimizer"));
}

TEST_CASE("combined optimizers: a gradient that an optimizer does not take is an error") {
  auto told = [](auto policy) {
    Texts model;
    Trainer trainer{model, CrossEntropyLoss{}, policy};
    auto before = trainer.state();
    auto text = test::message_of<BadModel>([&] { trainer.step(texts(1)[0]); });
    CHECK(test::same_bits(trainer.state()["head.bias"], before["head.bias"]));
    return text;
  };
  CHECK(test::contains(told(Combined<SparseAdam, SGD>{.match = named("head.*")}),
                       "`table.weight` is sparse, and SGD updates that parameter. Include it"));
  CHECK(test::contains(told(Combined<SparseAdam, SGD>{.match = named("table.*", "head.bias")}),
                       "the gradient of `head.bias` is dense"));
}

}  // namespace guarantees::combined
