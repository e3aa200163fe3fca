// Tests batches of samples of every form, SampleRng and TensorDataset.
#include "sets.hpp"

#include <ikebana/batch.hpp>
#include <unordered_map>

using namespace ikebana;

namespace test::data::collate {

/// A dataset of eight samples that a function makes.
template <class F>
struct FunctionDataset {
  F make;
  std::int64_t size() const { return 8; }
  auto get(std::int64_t i) const { return make(i); }
};
template <class F>
FunctionDataset(F) -> FunctionDataset<F>;
template <class F>
auto first_batch(F make) {
  DataLoader loader(FunctionDataset<F>{make}, {.batch_size = 4});
  return std::move(*loader.begin());
}
at::Tensor number(std::int64_t i) { return at::full({2}, double(i)); }
at::Tensor row(std::initializer_list<std::int64_t> all) { return at::tensor(std::vector(all)); }

struct Inner {
  std::vector<at::Tensor> list;
  std::optional<at::Tensor> some, none;
};
struct Nested {
  at::Tensor input;
  Inner inner;
  std::pair<at::Tensor, at::Tensor> pair;
  at::Tensor undefined;
};
struct TimeFirst {
  static constexpr int batch_dim = 1;
  at::Tensor input, target;
};

TEST_CASE("collate: every tensor of a struct is stacked, however it is nested") {
  Nested batch = first_batch([](std::int64_t i) {
    auto t = [i](int add) { return number(i + add); };
    return Nested{t(0), {{t(1), t(2)}, t(3), {}}, {t(4), t(5)}, {}};
  });
  auto stacked = [](int add) {
    return at::stack({number(add), number(add + 1), number(add + 2), number(add + 3)});
  };
  CHECK(rows(batch) == 4);
  CHECK(same_bits({batch.input, batch.inner.list[0], batch.inner.list[1], *batch.inner.some,
                   batch.pair.first, batch.pair.second},
                  {stacked(0), stacked(1), stacked(2), stacked(3), stacked(4), stacked(5)}));
  CHECK((!batch.inner.none && !batch.undefined.defined() && batch.inner.list.size() == 2));
}

TEST_CASE("collate: numbers become tensors of their types, texts a vector") {
  auto [a, b, c, d, e, text] = first_batch([](std::int64_t i) {
    return std::tuple(int(i), std::uint8_t(i), float(i) / 2, double(i) / 3, i % 2 == 0,
                      "name " + std::to_string(i));
  });
  CHECK(same_bits({a, b}, {row({0, 1, 2, 3}), row({0, 1, 2, 3})}));
  CHECK(same_bits(c, at::arange(4, at::kFloat) / 2));
  CHECK(same_bits(d, at::arange(4, at::kDouble) / 3));
  CHECK(same_bits(e, at::tensor(std::vector<int>{1, 0, 1, 0}).to(at::kBool)));
  CHECK(text == std::vector<std::string>{"name 0", "name 1", "name 2", "name 3"});
  CHECK(same_bits(first_batch([](std::int64_t i) { return i; }), row({0, 1, 2, 3})));
}

TEST_CASE("collate: tensors, pairs, nested tuples and Examples keep their form") {
  using torch::data::Example;
  at::Tensor stacked = at::stack({number(0), number(1), number(2), number(3)});
  CHECK(same_bits(first_batch([](std::int64_t i) { return number(i); }), stacked));
  auto example =
      first_batch([](std::int64_t i) { return Example<at::Tensor, int>(number(i), int(i)); });
  static_assert(std::is_same_v<decltype(example), Example<>>);
  CHECK(same_bits({example.data, example.target}, {stacked, row({0, 1, 2, 3})}));
  auto alone = first_batch([](std::int64_t i) { return torch::data::TensorExample(number(i)); });
  CHECK(same_bits(alone.data, stacked));
  auto nested = first_batch([](std::int64_t i) {
    return std::pair(std::tuple(number(i), int(i)), Inner{{number(i)}, number(i), {}});
  });
  auto& [tuple, inner] = nested;
  CHECK(same_bits({std::get<0>(tuple), std::get<1>(tuple), inner.list[0], *inner.some},
                  {stacked, row({0, 1, 2, 3}), stacked, stacked}));
}

TEST_CASE("collate: an error names a part that differs by its path") {
  auto refused = [](auto make) { return message_of<BadBatch>([&] { first_batch(make); }); };
  auto wide = [](std::int64_t i) { return at::ones({i == 2 ? 3 : 2}); };
  CHECK(contains(refused([&](std::int64_t i) { return std::tuple(1, wide(i)); }),
                 "`<1>` is Float[2]"));
  CHECK(contains(refused([&](std::int64_t i) { return std::pair(wide(i), 1); }),
                 "`<0>` is Float[2]"));
  CHECK(contains(refused([&](std::int64_t i) { return wide(i); }), "`tensor` is Float[2]"));
  CHECK(contains(refused([&](std::int64_t i) { return std::pair(1, Inner{{wide(i)}, {}, {}}); }),
                 "`<1>.list[0]` is Float[2] on cpu in sample 0, and Float[3] on cpu in sample 2"));
  auto absent = [&](std::int64_t i) {
    Inner inner{{number(i)}, number(i), {}};
    if (i == 3) inner.some.reset();
    return inner;
  };
  CHECK(contains(refused(absent), "`some` is Float[2] on cpu in sample 0, and absent in sample 3"));
  auto more = [&](std::int64_t i) {
    Inner inner{{number(i)}, {}, {}};
    if (i == 1) inner.list.push_back(number(i));
    return inner;
  };
  CHECK(contains(refused(more), "is absent in sample 0, and Float[2] on cpu in sample 1"));
}

TEST_CASE("collate: samples of different lengths become a Ragged, in a struct and in a map") {
  struct Sentence {
    Ragged tokens;
    at::Tensor label;
  };
  auto tokens = [](std::int64_t i) { return at::arange(i + 1); };
  auto sentence = [&](std::int64_t i) { return Sentence{Ragged{{tokens(i)}}, number(i)}; };
  Sentence batch = first_batch(sentence);
  CHECK(rows(batch) == 4);
  CHECK(same_bits(batch.tokens.unbind(), {tokens(0), tokens(1), tokens(2), tokens(3)}));
  CHECK(same_bits(batch.label, at::stack({number(0), number(1), number(2), number(3)})));
  auto refused = [](auto make) { return message_of<BadBatch>([&] { first_batch(make); }); };
  CHECK(contains(refused([&](std::int64_t i) { return Ragged{{tokens(i), tokens(i)}}; }),
                 "sample 0 holds 2 samples"));
  auto typed = [&](std::int64_t i) {
    return Ragged{{tokens(i).to(i == 2 ? at::kInt : at::kLong)}};
  };
  CHECK(contains(refused(typed), "`values` is Long[1] on cpu in sample 0, and Int[3]"));
}

TEST_CASE("collate: maps of tensors are stacked by name, and names must be the same") {
  using Named = std::unordered_map<std::string, at::Tensor>;
  auto named = [](std::int64_t i, const char* last) {
    Named sample;  // filled in two orders, so that the tables differ in theirs
    auto add = [&](const char* name, double value) { sample[name] = number(i) * value; };
    if (i % 2 == 0) add("a", 1), add("b", 2), add(last, 3);
    else add(last, 3), add("b", 2), add("a", 1);
    return std::pair(sample, i);
  };
  auto [batch, count] = first_batch([&](std::int64_t i) { return named(i, "c"); });
  at::Tensor stacked = at::stack({number(0), number(1), number(2), number(3)});
  CHECK(same_bits({batch.at("a"), batch.at("b"), batch.at("c")},
                  {stacked, stacked * 2, stacked * 3}));
  auto other = [&](std::int64_t i) { return named(i, i == 2 ? "d" : "c"); };
  auto told = message_of<BadBatch>([&] { first_batch(other); });
  CHECK(contains(told, "`<0>[\"c\"]` in sample 0, `<0>[\"d\"]` in sample 2"));
}

TEST_CASE("collate: a function of the user makes batches of samples that are no tensors") {
  struct Sample {
    std::vector<std::int64_t> tokens;
  };
  FunctionDataset dataset{
      [](std::int64_t i) { return Sample{std::vector<std::int64_t>(std::size_t(i), i)}; }};
  auto pad = [](const std::vector<Sample>& samples) {
    at::Tensor batch = at::zeros({std::int64_t(samples.size()), 8}, at::kLong);
    for (std::size_t i = 0; i < samples.size(); ++i)
      for (std::size_t t = 0; t < samples[i].tokens.size(); ++t)
        batch[std::int64_t(i)][std::int64_t(t)] = samples[i].tokens[t];
    return batch;
  };
  for (std::int64_t workers : {0, 2}) {
    DataLoader loader(dataset, {.batch_size = 4, .num_workers = workers}, pad);
    std::int64_t sum = 0;
    for (auto& batch : loader) sum += batch.sum().item<std::int64_t>();
    CHECK(sum == 1 + 4 + 9 + 16 + 25 + 36 + 49);
  }
}

TEST_CASE(
    "SampleRng: uniform within its bounds, its own generator, other numbers for another key") {
  SampleRng rng(1), same(1), other(2);
  std::vector<int> counts(10);
  double sum = 0;
  for (int i = 0; i < 10000; ++i) {
    ++counts[std::size_t(rng.randint(10))];
    double u = rng.uniform();
    CHECK((u >= 0 && u < 1));
    sum += u;
  }
  for (int count : counts) CHECK(std::abs(count - 1000) < 150);
  CHECK(std::abs(sum / 10000 - 0.5) < 0.015);
  at::Tensor noise = at::randn({5}, rng.generator());
  CHECK(same_bits(at::randn({5}, same.generator()), noise));  // independent of the other numbers
  CHECK_FALSE(same_bits(at::randn({5}, rng.generator()), noise));
  CHECK_FALSE(same_bits(at::randn({5}, other.generator()), noise));
  CHECK(SampleRng(7).randint(1) == 0);
}

TEST_CASE(
    "tensor dataset: one index_select per tensor, rows of structs, tuples and another dimension") {
  at::Tensor x = at::arange(12).view({6, 2}), y = at::arange(6);
  DataLoader tuples(TensorDataset(x, y, y + 1), {.batch_size = 4});
  auto [a, b, c] = *tuples.begin();
  CHECK(same_bits({a, b, c}, {x.narrow(0, 0, 4), y.narrow(0, 0, 4), y.narrow(0, 1, 4)}));
  DataLoader timed(TensorDataset(TimeFirst{x.t(), x.t()}), {.batch_size = 4});
  CHECK(same_bits((*timed.begin()).input, x.t().narrow(1, 0, 4)));
  TensorDataset whole(x);
  DataLoader one(whole, {.batch_size = 4});
  CHECK(same_bits(*one.begin(), x.narrow(0, 0, 4)));
  CHECK_FALSE((*one.begin()).is_alias_of(x));
}

}  // namespace test::data::collate
