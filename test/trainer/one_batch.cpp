// Tests that step, fit, evaluate and AnyTrainer agree on what is one batch and what is a range of
// batches.
#include <deque>
#include <list>
#include <span>
#include <unordered_map>

#include "compare.hpp"

using namespace ikebana;

namespace test::one_batch {

using Named = std::map<std::string, at::Tensor>;
using Hashed = std::unordered_map<std::string, at::Tensor>;
using Dict = torch::OrderedDict<std::string, at::Tensor>;

/// Its loss takes each form of a batch with the fields x and y.
struct FieldsNetImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(4, 1));

  Loss of(const at::Tensor& x, const at::Tensor& y) {
    return {(layer(x).squeeze(1) - y).square().sum(), y.numel()};
  }
  template <class Run>
  Loss loss(Run&, const std::vector<at::Tensor>& b) {
    return of(b.at(0), b.at(1));
  }
  template <class Run>
  Loss loss(Run&, const std::array<at::Tensor, 2>& b) {
    return of(b[0], b[1]);
  }
  template <class Run>
  Loss loss(Run&, const Named& b) {
    return of(b.at("x"), b.at("y"));
  }
  template <class Run>
  Loss loss(Run&, const Hashed& b) {
    return of(b.at("x"), b.at("y"));
  }
  template <class Run>
  Loss loss(Run&, const Dict& b) {
    return of(b["x"], b["y"]);
  }
  template <class Run>
  Loss loss(Run&, const at::Tensor& x) {
    return of(x, x.select(1, 0));
  }
};
TORCH_MODULE(FieldsNet);

using Net = Trainer<FieldsNet, SGD, Accumulate<>>;
Net trainer(std::int64_t microbatches = 1) {
  torch::manual_seed(0);
  return Net{FieldsNet(), Accumulate<>{.microbatches = microbatches}};
}
/// Returns the parameters after the steps of `f`.
template <class F>
std::vector<at::Tensor> after(F&& f, std::int64_t microbatches = 1) {
  Net net = trainer(microbatches);
  f(net);
  return values_of(net.model());
}

template <class Batch>
void check_one_batch(const Batch& batch, const std::vector<at::Tensor>& expected) {
  CHECK(same_bits(after([&](Net& net) { CHECK(net.step(batch).microbatches == 1); }), expected));
  auto cut = after([&](Net& net) { CHECK(net.step(batch).microbatches == 3); }, 3);
  CHECK(worst_relative(cut, expected) < 1e-6);
  CHECK(trainer().evaluate(std::vector<Batch>(1, batch)).loss ==
        doctest::Approx(trainer().step(batch).loss()));
}

TEST_CASE("one batch: a vector, an array and a map of tensors, cut by rows") {
  const at::Tensor x = random({7, 4}), y = random({7}, 2);
  auto expected = after([&](Net& net) { net.step(std::array{x, y}); });
  CHECK_FALSE(same_bits(expected, values_of(trainer().model())));
  check_one_batch(std::array{x, y}, expected);
  check_one_batch(std::vector{x, y}, expected);
  check_one_batch(Named{{"x", x}, {"y", y}}, expected);
  check_one_batch(Hashed{{"x", x}, {"y", y}}, expected);
  check_one_batch(Dict{{"x", x}, {"y", y}}, expected);
}

TEST_CASE("range of batches: of vectors, of maps, and bare tensors in tuples") {
  const at::Tensor x = random({5, 4}), y = random({5}, 2);
  auto part = [&](const at::Tensor& t, int i) { return t.narrow(0, 2 * i, i == 0 ? 2 : 3); };
  auto expected = after([&](Net& net) { net.step(std::array{x, y}); });
  auto same = [&](const auto& range) {
    auto now = after([&](Net& net) { CHECK(net.step(range).microbatches == 2); });
    CHECK(worst_relative(now, expected) < 1e-6);
  };
  std::vector lists{std::vector{part(x, 0), part(y, 0)}, std::vector{part(x, 1), part(y, 1)}};
  same(lists);
  same(std::list(lists.begin(), lists.end()));
  same(std::vector{Named{{"x", part(x, 0)}, {"y", part(y, 0)}},
                   Named{{"x", part(x, 1)}, {"y", part(y, 1)}}});

  const std::vector<at::Tensor> bare{part(x, 0), part(x, 1)};
  const std::vector<std::tuple<at::Tensor>> tuples{{bare[0]}, {bare[1]}};
  expected = after([&](Net& net) { net.step(x); });
  same(tuples);
  auto fitted = after([&](Net& net) {
    const History history = net.fit(bare, {.batches_per_step = 2, .progress = false});
    CHECK(history[0].steps == 1);
  });
  CHECK(same_bits(fitted, after([&](Net& net) { net.step(tuples); })));
}

TEST_CASE("range of batches: AnyTrainer follows the same rule") {
  const at::Tensor x = random({4, 4}), y = random({4}, 2);
  const std::vector<std::tuple<at::Tensor>> tuples{{x}, {x + 1}};
  auto same = [](auto any, auto&& step, auto&& other) {
    step(any);
    CHECK(same_bits(any.model()->parameters(), after(other)));
  };
  using Bare = AnyTrainer<at::Tensor>;
  auto tuples_step = [&](auto& net) { net.step(tuples); };
  same(Bare(trainer()), tuples_step, tuples_step);
  same(
      Bare(trainer()), [&](Bare& net) { net.step(std::list(tuples.begin(), tuples.end())); },
      tuples_step);
  const std::vector bare{x, x + 1};
  same(Bare(trainer()), [&](Bare& net) { net.fit(bare, {.batches_per_step = 2}); }, tuples_step);
  using Lists = AnyTrainer<std::vector<at::Tensor>>;
  auto one = [&](auto& net) { CHECK(net.step(std::vector{x, y}).microbatches == 1); };
  same(Lists(trainer()), one, one);
  auto two = [&](auto& net) {
    CHECK(net.step(std::vector(2, std::vector{x, y})).microbatches == 2);
  };
  same(Lists(trainer()), two, two);
}

TEST_CASE("one batch: a vector of tensors with different rows names what was meant") {
  Net net = trainer();
  const std::vector<at::Tensor> uneven{random({3, 4}), random({2, 4})};
  CHECK(undone<BadBatch>(net, random({2, 4}), [&] { net.step(uneven); },
                         {"[0] Float[3, 4] on cpu, [1] Float[2, 4]", "Ragged{tensors}",
                          "std::vector<std::tuple<at::Tensor>> for microbatches"}) == "");
  const Named named{{"x", random({3, 4})}, {"y", random({2})}};
  CHECK(undone<BadBatch>(net, random({2, 4}), [&] { net.step(named); },
                         {"[\"x\"] Float[3, 4] on cpu, [\"y\"] Float[2]", "Ragged{tensors}"}) ==
        "");
}

// A range of bare tensors that could be either is classified by its type alone.
using ikebana::detail::BareTensors;
static_assert(BareTensors<std::list<at::Tensor>> && BareTensors<std::deque<at::Tensor>>);
static_assert(BareTensors<at::TensorList> && BareTensors<std::span<const at::Tensor>>);
static_assert(!BareTensors<std::vector<at::Tensor>> && !BareTensors<std::array<at::Tensor, 2>>);
static_assert(!BareTensors<std::list<std::tuple<at::Tensor>>> && !BareTensors<Named>);

}  // namespace test::one_batch
