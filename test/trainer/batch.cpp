// Tests batches in every form that a trainer accepts.
#include "test.hpp"

#include <array>
#include <filesystem>
#include <list>
#include <memory>

#include "compare.hpp"
#include "runner_net.hpp"

using namespace ikebana;

namespace test::batch {

using Rows = Pairs;

struct Inside {
  at::Tensor mask;
  std::optional<at::Tensor> extra, none;
};
struct Everything {
  at::Tensor input;
  Inside inside;
  std::vector<at::Tensor> list;
  std::tuple<at::Tensor, std::pair<at::Tensor, int>> mixed;
  std::array<at::Tensor, 2> two;
  at::Tensor scalar, undefined;
  std::string name;
  int number;
};
struct TimeFirst {
  static constexpr int batch_dim = 1;
  at::Tensor input, target;
};
/// Pairs of rows that must stay together.
struct Couples {
  at::Tensor input, target;
};

}  // namespace test::batch

namespace test::batch {

/// Takes a list of tensors as one batch: rows, targets, and a number that belongs to all rows.
struct ListNetImpl : torch::nn::Module {
  torch::nn::Linear layer{4, 1};
  ListNetImpl() { register_module("layer", layer); }
  template <class Run>
  Loss loss(Run&, const std::vector<at::Tensor>& list) {
    return {((layer(list[0]).squeeze(1) - list[1]) * list[2]).square().sum(), list[0].size(0)};
  }
  template <class Run>
  Loss loss(Run&, const Rows& rows) {
    return {(layer(rows.input).squeeze(1) - rows.target).square().sum(), rows.input.size(0)};
  }
};
TORCH_MODULE(ListNet);

}  // namespace test::batch

template <>
std::vector<test::batch::Couples> ikebana::split(const test::batch::Couples& batch,
                                                 std::int64_t n) {
  std::vector<test::batch::Couples> parts;
  for (std::int64_t i = 0; i < n; ++i)
    parts.push_back({batch.input.narrow(0, 2 * i, 2), batch.target.narrow(0, 2 * i, 2)});
  return parts;
}

namespace test::batch {

TEST_CASE("batch: every tensor inside is cut in order, scalars and other values are shared") {
  auto t = [](int seed) { return random({7, 2}, seed); };
  Everything batch{t(1),
                   {t(2), t(3), {}},
                   {t(4), t(5)},
                   {t(6), {t(7), 3}},
                   {t(8), t(9)},
                   at::ones({}),
                   {},
                   "name",
                   5};
  CHECK(rows(batch) == 7);
  auto parts = ikebana::split(batch, 3);
  REQUIRE(parts.size() == 3);
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    std::int64_t n = i == 0 ? 3 : 2;
    auto cut = [&](const at::Tensor& whole) { return whole.narrow(0, begin, n); };
    const Everything& p = parts[i];
    CHECK(same_bits({p.input, p.inside.mask, *p.inside.extra, p.list[0], p.list[1],
                     std::get<0>(p.mixed), std::get<1>(p.mixed).first, p.two[0], p.two[1]},
                    {cut(t(1)), cut(t(2)), cut(t(3)), cut(t(4)), cut(t(5)), cut(t(6)), cut(t(7)),
                     cut(t(8)), cut(t(9))}));
    CHECK(p.input.is_alias_of(batch.input));  // a view, no copy
    CHECK(p.scalar.is_same(batch.scalar));
    CHECK((!p.undefined.defined() && !p.inside.none && p.name == "name" && p.number == 5));
    CHECK(std::get<1>(p.mixed).second == 3);
    begin += n;
  }
}

struct Lists {
  at::Tensor input;
  std::vector<std::int64_t> lengths;
  std::list<std::string> texts;
  std::vector<bool> flags;
  std::vector<std::vector<int>> tokens, columns;
  std::map<std::string, std::optional<std::vector<int>>> named;
  std::vector<double> two;
  std::string text;
  std::wstring wide;
  std::filesystem::path path;
  std::shared_ptr<std::vector<int>> shared;
};
Lists lists() {
  Lists all;
  all.input = random({4, 2}), all.lengths = {1, 2, 3, 4};
  all.texts = {"a", "b", "", "d"}, all.flags = {true, false, true, false};
  all.tokens = {{1}, {2}, {}, {4}}, all.columns = {{1, 2, 3, 4}, {5, 6, 7, 8}};
  all.named["k"] = {1, 2, 3, 4}, all.two = {1, 2};
  all.text = "four", all.wide = L"four", all.path = "a/b";
  all.shared = std::make_shared<std::vector<int>>(4);
  return all;
}

TEST_CASE("batch: lists as long as the batch are cut with it, all others are shared") {
  const Lists batch = lists();
  const Lists part = ikebana::split(batch, 2)[1], two = index_select(batch, at::tensor({3, 0}));
  CHECK(part.lengths == std::vector<std::int64_t>{3, 4});
  CHECK(two.lengths == std::vector<std::int64_t>{4, 1});
  CHECK(part.texts == std::list<std::string>{"", "d"});
  CHECK(two.texts == std::list<std::string>{"d", "a"});
  CHECK(part.flags == std::vector<bool>{true, false});
  CHECK(two.flags == std::vector<bool>{false, true});
  CHECK(part.tokens == std::vector<std::vector<int>>{{}, {4}});
  CHECK(part.columns == std::vector<std::vector<int>>{{3, 4}, {7, 8}});
  CHECK(two.columns == std::vector<std::vector<int>>{{4, 1}, {8, 5}});
  CHECK(*part.named.at("k") == std::vector<int>{3, 4});
  CHECK(part.two == batch.two);
  CHECK((part.text == "four" && part.wide == L"four" && part.path == "a/b"));
  CHECK(part.shared == batch.shared);
}

TEST_CASE("batch: rows are those of tensors, else of lists; what cannot be cut is an error") {
  CHECK(rows(std::tuple(std::vector{1, 2}, std::vector<std::string>{"a", "b"})) == 2);
  CHECK(rows(std::pair(at::ones({3}), std::vector{1, 2})) == 3);
  CHECK_THROWS_AS(rows(std::tuple(std::vector{1, 2}, std::vector{1})), BadBatch);
  std::pair fixed(at::ones({3}), std::array{1, 2, 3});
  CHECK(told<BadBatch>([&] { narrow(fixed, 0, 1); }, {"3 values", "cannot be cut", "vector"}) ==
        "");
  CHECK(told<BadBatch>([&] { narrow(at::ones({3}), 2, 2); }, {"no rows 2 to 4", "of 3"}) == "");
  std::pair listed(std::vector{1, 2}, at::ones({2}));
  CHECK(told<BadBatch>([&] { index_select(listed, at::tensor({2})); }, {"no row 2 of 2"}) == "");
  auto mask = at::tensor(std::vector<int>{1, 0}).to(at::kBool);
  CHECK(told<BadBatch>([&] { index_select(listed, mask); }, {"Bool[2]", "nonzero"}) == "");
  CHECK(told<BadBatch>([&] { index_select(Ragged{{mask}}, mask); }, {"Bool[2]"}) == "");
}

/// Tensors that cannot be seen from outside.
class Hidden {
 public:
  const at::Tensor& input() const { return input_; }

 private:
  at::Tensor input_ = at::ones({4, 3});
};

TEST_CASE("batch: one whose tensors cannot be seen is refused, and not trained whole or in part") {
  const auto objective = [](auto&, torch::nn::Linear& net, const Hidden& batch) {
    const auto y = net(batch.input());
    return Loss{y.pow(2).sum(), y.size(0)};
  };
  const auto refuses = [&](auto... policies) {
    Trainer trainer{torch::nn::Linear(3, 2), objective, policies...};
    const auto text = message_of<BadBatch>([&] { trainer.step(Hidden()); });
    CHECK_MESSAGE(contains(text, "Make them public members of a struct"), text);
    CHECK(trainer.steps() == 0);
  };
  refuses();
  refuses(Accumulate<2>{});
}

TEST_CASE("batch: a part with a batch_dim of its own is cut along that") {
  std::pair batch(TimeFirst{random({3, 4}), random({2, 4})}, random({4, 5}));
  CHECK(rows(batch) == 4);
  auto part = ikebana::split(batch, 2)[1];
  CHECK(same_bits(part.first.input, batch.first.input.narrow(1, 2, 2)));
  CHECK(same_bits(part.second, batch.second.narrow(0, 2, 2)));
}

TEST_CASE("batch: tensors, tuples, pairs and examples, fewer rows than parts, another dimension") {
  auto x = random({4, 3}), y = random({4, 5}, 2);
  auto sizes = [](const auto& batch, std::int64_t n) {
    std::vector<std::int64_t> all;
    for (const auto& part : ikebana::split(batch, n)) all.push_back(rows(part));
    return all;
  };
  using Sizes = std::vector<std::int64_t>;
  CHECK(sizes(x, 3) == Sizes{2, 1, 1});
  CHECK(sizes(std::tuple(x, y), 2) == Sizes{2, 2});
  CHECK(sizes(std::pair(x, y), 4) == Sizes{1, 1, 1, 1});
  CHECK(sizes(torch::data::Example<>(x, y), 9) == Sizes{1, 1, 1, 1});
  CHECK(sizes(TimeFirst{random({2, 5}), random({3, 5})}, 2) == Sizes{3, 2});
  CHECK(ikebana::split(TimeFirst{x.t(), y.t()}, 2)[1].input.sizes() == at::IntArrayRef({3, 2}));
}

TEST_CASE("batch: however it is wrapped or cut, the update equals that of the whole") {
  Rows rows{random({7, 3}), at::arange(7) % 5};
  auto after = [](auto trainer, const auto& batch) {
    trainer.step(batch);
    return values_of(trainer.model());
  };
  using Whole = Trainer<torch::nn::Linear, CrossEntropyLoss, SGD>;
  using Cut = Trainer<torch::nn::Linear, CrossEntropyLoss, SGD, Accumulate<3>>;
  auto whole = after(Whole(linear()), rows);
  CHECK(same_bits(after(Whole(linear()), std::pair(rows.input, rows.target)), whole));
  CHECK(same_bits(after(Whole(linear()), torch::data::Example<>(rows.input, rows.target)), whole));
  std::map<std::string, at::Tensor> named{{"input_ids", rows.input}, {"labels", rows.target}};
  CHECK(same_bits(after(Whole(linear()), named), whole));
  CHECK(same_bits(after(Whole(linear()), std::vector{rows.input, rows.target}), whole));
  CHECK(same_bits(after(Whole(linear()), std::array{rows.input, rows.target}), whole));
  CHECK(worst_relative(after(Cut(linear()), rows), whole) < 1e-6);
  CHECK(worst_relative(after(Cut(linear()), std::tuple(rows.input, rows.target)), whole) < 1e-6);
  Cut coupled(linear());
  CHECK(
      coupled.step(Couples{rows.input.narrow(0, 0, 6), rows.target.narrow(0, 0, 6)}).microbatches ==
      3);
}

TEST_CASE("batch: an objective takes one input and one target, and ignores no tensor of a map") {
  Trainer<torch::nn::Linear, CrossEntropyLoss, SGD> trainer{linear()};
  std::map<std::string, at::Tensor> batch{{"input", random({4, 3})}, {"labels", at::arange(4)}};
  auto refused = [&](const auto& b, const Words& words) {
    return told<BadBatch>([&] { trainer.step(b); }, words);
  };
  batch["attention_mask"] = at::ones({4});
  CHECK(refused(batch, {"ignore its `attention_mask`", "[\"labels\"] Long[4]", "Erase"}) == "");
  batch.erase("attention_mask"), batch["target"] = at::arange(4);
  CHECK(refused(batch, {"several of `target`, `y`, `label`, `labels`"}) == "");
  batch.erase("target"), batch.erase("labels");
  CHECK(refused(batch, {"none of `target`"}) == "");
  CHECK(refused(std::vector(3, at::ones({4})), {"two tensors", "this one holds 3"}) == "");
  CHECK(trainer.steps() == 0);
}

TEST_CASE("batch: evaluate takes a list of tensors whole, numbers included") {
  torch::manual_seed(1);
  ListNet net;
  Trainer trainer{net, SGD{}};
  const auto x = random({6, 4}), y = random({6});
  const double expected = trainer.evaluate(std::vector{Rows{x, y}}).loss;
  const std::vector<std::vector<at::Tensor>> lists = {{x, y, at::ones({})}};
  CHECK(trainer.evaluate(lists).loss == expected);
}

}  // namespace test::batch
