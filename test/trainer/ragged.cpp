// Tests ragged: samples of different lengths, cut between samples.
#include "compare.hpp"
#include "runner_net.hpp"

using namespace ikebana;

namespace test::ragged {

std::vector<at::Tensor> samples() {
  return {random({3, 4}), random({0, 4}), random({1, 4}, 2), random({5, 4}, 3)};
}
at::Tensor longs(std::initializer_list<std::int64_t> all) { return at::tensor(std::vector(all)); }

TEST_CASE("ragged: of samples, or of values and offsets") {
  const auto all = samples();
  Ragged joined{all}, given{at::cat(all), longs({0, 3, 3, 4, 9})};
  for (const Ragged& ragged : {joined, given, Ragged{at::cat(all), given.offsets().to(at::kInt)}}) {
    CHECK(ragged.size() == 4);
    CHECK(same_bits(ragged.unbind(), all));
    CHECK(same_bits(ragged.offsets(), longs({0, 3, 3, 4, 9})));
    CHECK(ragged.lengths() == std::vector<std::int64_t>{3, 0, 1, 5});
  }
  CHECK(Ragged{{all[0], all[3]}}.size() == 2);  // it has two samples
  CHECK_FALSE(Ragged().defined());
  CHECK(rows(std::pair(Ragged(), at::ones({3}))) == 3);  // as an undefined tensor
  Ragged own = given;
  given.offsets().add_(1);
  CHECK(same_bits(own[0], all[0]));  // what the host knows of a Ragged does not change
}

struct TimeFirst {
  static constexpr int batch_dim = 1;
  at::Tensor x;
  Ragged tokens;
};

TEST_CASE("ragged: a batch counts and cuts its samples, whatever its batch_dim") {
  const auto all = samples();
  TimeFirst batch{random({2, 4}), Ragged{all}};
  auto parts = ikebana::split(batch, 3);
  REQUIRE(parts.size() == 3);
  CHECK(same_bits(parts[0].tokens.unbind(), {all[0], all[1]}));
  CHECK(same_bits(parts[2].tokens.unbind(), {all[3]}));
  CHECK(same_bits(parts[2].tokens.offsets(), longs({0, 5})));
  CHECK(parts[2].tokens.values().is_alias_of(batch.tokens.values()));  // a view
  auto two = index_select(batch, longs({3, 0}));
  CHECK(same_bits(two.tokens.unbind(), {all[3], all[0]}));
  CHECK(same_bits(two.x, batch.x.index_select(1, longs({3, 0}))));
}

TEST_CASE("ragged: errors name what does not fit") {
  const auto all = samples();
  auto refused = [](auto&& f, const Words& words) { return told<BadBatch>(f, words); };
  CHECK(refused([&] { Ragged(all[0], all[3]); },
                {"offsets Float[5, 4]", "Long", "first, second"}) == "");
  CHECK(refused([] { Ragged(at::ones({3}), at::arange(3)); }, {"0 to 2", "Float[3]"}) == "");
  CHECK(refused([] { Ragged(at::ones({3}), longs({0, 4, 3})); }, {"never fall"}) == "");
  CHECK(refused([&] { Ragged{{all[0], all[3].to(at::kDouble)}}; },
                {"sample 1 is Double[5, 4]", "sample 0 Float[3, 4]"}) == "");
  CHECK(refused([] { Ragged(std::vector<at::Tensor>()); }, {"no samples"}) == "");
  CHECK(refused([&] { Ragged{all}[4]; }, {"no sample 4", "has 4"}) == "");
  CHECK(refused([&] { index_select(Ragged{all}, longs({-1})); }, {"no sample -1"}) == "");
  CHECK(refused([&] { rows(std::pair(Ragged{all}, at::ones({3}))); },
                {"<0>.offsets Long[5]", "<1> Float[3]"}) == "");
  CHECK(refused([] { rows(Ragged{at::ones({0}), longs({0})}); }, {"is empty"}) == "");
}

/// A unit that takes a Ragged and returns one.
struct EachImpl : torch::nn::Module {
  Layer layer = register_module("layer", Layer());
  Ragged forward(const Ragged& x) { return {layer(x.values()), x.offsets()}; }
};
TORCH_MODULE(Each);
struct SentencesImpl : torch::nn::Module {
  using units = Units<Each>;
  Each each = register_module("each", Each());

  Loss loss(Runner& run, const std::pair<Ragged, std::vector<double>>& batch) {
    Ragged y = run(each, batch.first);
    at::Tensor sum = at::zeros({});
    for (std::size_t i = 0; i < batch.second.size(); ++i)
      sum = sum + (y[std::int64_t(i)].sum() - batch.second[i]).square();
    return {sum, y.size()};
  }
};
TORCH_MODULE(Sentences);

TEST_CASE("ragged: through a Runner, a checkpoint and microbatches, with a list of targets") {
  auto after = [](auto recipe) {
    torch::manual_seed(0);
    Sentences net;
    net->each->layer->drop->options.p(0);
    Trainer trainer = recipe(net);
    std::pair batch(Ragged{samples()}, std::vector<double>{1, 2, 3, 4});
    trainer.step(batch), trainer.step(batch);
    CHECK(trainer.evaluate(std::vector{batch}).count == 4);
    return values_of(net);
  };
  auto whole = after([](Sentences net) { return Trainer{net, SGD{}}; });
  auto cut =
      after([](Sentences net) { return Trainer{net, SGD{}, Accumulate<3>{}, Checkpoint<Full>{}}; });
  CHECK(worst_relative(cut, whole) < 1e-6);
}

}  // namespace test::ragged
