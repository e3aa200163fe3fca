// Former names: each that a minor version still takes gives the bits of the name that is kept.
#include "test.hpp"

#include "classifier.hpp"

#include <ikebana/modules/generate.hpp>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace test::former_names {

using namespace ikebana;
using verbs::batch;
using verbs::data;
using verbs::net;
using verbs::Net;
using verbs::Rows;

/// Copies of a model's parameters.
std::vector<at::Tensor> values_of(const auto& model) {
  std::vector<at::Tensor> all;
  for (const auto& parameter : model->parameters()) all.push_back(parameter.detach().clone());
  return all;
}

/// The state after two steps of a recipe.
template <class... Policies>
StateDict trained(const Policies&... policies) {
  Trainer trainer{net(), CrossEntropyLoss{}, SGD{.lr = 0.1}, policies...};
  for (const Rows& one : data(2)) trainer.step(one);
  return trainer.state();
}

TEST_CASE("former names: with_averaged_weights and state_view") {
  auto train = [](auto& trainer) {
    for (const Rows& one : data(3)) trainer.step(one);
    const auto trained = values_of(trainer.model());
    std::vector<at::Tensor> former, kept;
    trainer.with_averaged_weights([&](auto& model) { former = values_of(model); });
    trainer.with_full_weights([&](auto& model) { kept = values_of(model); }, {.averaged = true});
    CHECK(same_bits(former, kept));
    CHECK_FALSE(same_bits(former, trained));
    trainer.with_full_weights([&](auto& model) { CHECK(same_bits(values_of(model), trained)); },
                              {});
    CHECK(same_state(trainer.state_view(), trainer.state()));
  };
  Trainer trainer{net(), CrossEntropyLoss{}, SGD{.lr = 0.1}, EMA{.decay = 0.5}};
  train(trainer);
  CHECK(trainer.with_averaged_weights([](Net& model) { return model->w->weight.size(0); }) == 5);
  AnyTrainer<Rows> any = std::move(trainer);
  train(any);
}

template <class Word>
void check_budget(const std::string& name) {
  CHECK(same_state(trained(Word{.limit = GiB(1)}), trained(Word{.bytes = GiB(1)})));
  Trainer trainer{net(), CrossEntropyLoss{}, SGD{.lr = 0.1}, Word{.bytes = GiB(1)}};
  CHECK(contains(trainer.describe(), "{limit=1073741824}"));
  trainer.template get<Word>().bytes = GiB(2);  // the next step obeys it
  trainer.step(batch(0));
  CHECK(contains(trainer.describe(), "{limit=2147483648"));
  trainer.template get<Word>().limit = GiB(1);
  const std::string both = ": limit is 1073741824, and bytes, its former name, is 2147483648";
  CHECK(contains(message_of<BadValue>([&] { trainer.step(batch(1)); }), name + both));
  trainer.template get<Word>().bytes = 0;
  trainer.step(batch(1));
  CHECK(contains(trainer.describe(), "{limit=1073741824"));
  CHECK(contains(message_of<BadValue>([] { Mechanism<Word>(Word{.limit = 1, .bytes = 1}); }),
                 "Set limit alone"));
  CHECK(contains(message_of<BadValue>([] { Mechanism<Word>(Word{.bytes = -1}); }), "limit is -1"));
}

TEST_CASE("former names: bytes of a budget is its limit") {
  check_budget<Checkpoint<Budget<>>>("Checkpoint<Budget<>>");
  check_budget<Checkpoint<ActivationBudget<>>>("Checkpoint<ActivationBudget<>>");
}

TEST_CASE("former names: Without of an axis that has a null choice of its own") {
  const StateDict plain = trained();
  CHECK(same_state(trained(Without<axis::shard>()), plain));
  CHECK(same_state(trained(Without<axis::offload>(), Without<axis::capture>()), plain));
  CHECK(same_state(trained(Without<axis::checkpoint>(), Without<axis::precision>()), plain));
  CHECK(same_state(trained(Without<axis::freeze>(), Without<axis::layout>()), plain));
  CHECK(same_state(trained(Without<axis::accumulate>()), plain));
  CHECK(same_state(trained(Without<axis::schedule>()), plain));
}

TEST_CASE("former names: stop_token comes before stop_tokens") {
  const auto step = [](const at::Tensor& tokens) {
    return at::one_hot(tokens.slice(1, -1) + 1, 12).to(at::kFloat) * 50;
  };
  const auto prompt = at::tensor({0, 3, 5}, at::kLong).view({3, 1});
  const auto run = [&](modules::GenerateOptions options) {
    options.max_new_tokens = 5;
    return modules::generate(step, prompt, options);
  };
  CHECK(same_bits(run({.stop_token = 5}), run({.stop_tokens = {5}})));
  CHECK(same_bits(run({.stop_token = 9, .stop_tokens = {5, 7}}), run({.stop_tokens = {9, 5, 7}})));
  const std::vector<at::Tensor> prompts = {prompt[0], prompt[1]};
  const auto former = modules::generate(step, prompts, {.stop_token = 6});
  CHECK(same_bits(former, modules::generate(step, prompts, {.stop_tokens = {6}})));
}

TEST_CASE("former names: types and values") {
  using Loader = DataLoader<TensorDataset<Rows>>;
  static_assert(std::is_same_v<LoaderPosition, BatchPosition>);
  static_assert(std::is_same_v<Loader::Position, BatchPosition>);
  Trainer trainer{net(), CrossEntropyLoss{}};
  std::int64_t number = 3;
  struct Part {
    std::int64_t& number;
    void state(Archive& archive) { archive.number("number", number); }
  } part{number};
  const StateDict state = trainer.state({part});
  trainer.restore(state, StateParts::ignored());
  CHECK_THROWS_AS(trainer.restore(state), BadState);
}

}  // namespace test::former_names

#pragma GCC diagnostic pop
