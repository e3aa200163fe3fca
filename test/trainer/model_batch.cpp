// Models, batches and objectives in every form that a trainer takes.
#include "test.hpp"

#include "compare.hpp"
#include "runner_net.hpp"

using namespace ikebana;
using test::random, test::values_of;
using test::same_bits;

namespace {

using Rows = test::Pairs;

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 3));
  at::Tensor forward(const at::Tensor& x) { return at::tanh(w(x)); }
};
TORCH_MODULE(Block);
/// Units one may not edit the model for; a tensor that both blocks and the root share.
struct TheirsImpl : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(3, 3));
  torch::nn::ModuleList blocks = register_module("blocks", torch::nn::ModuleList(Block(), Block()));
  TheirsImpl() {
    auto scale = at::ones({3});
    auto only = register_parameter("only", at::ones({2}));
    for (auto& block : *blocks) block->register_parameter("scale", scale);
    blocks[1]->register_parameter("only", only);
  }
  at::Tensor forward(const at::Tensor& x) { return in(x); }
};
TORCH_MODULE(Theirs);

struct PlainNetImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 5));
  at::Tensor forward(const at::Tensor& x) { return w(x); }
};
TORCH_MODULE(PlainNet);
template <class Net>
Net made() {
  torch::manual_seed(0);
  return Net();
}
Rows classes(std::int64_t n = 6) { return {random({n, 3}), at::arange(n) % 5}; }

}  // namespace

template <>
struct ikebana::UnitsOf<TheirsImpl> {
  using type = ikebana::Units<Block>;
};

TEST_CASE("model: a holder, a shared_ptr and a module type train alike") {
  PlainNet a = made<PlainNet>();
  auto b = made<PlainNet>().ptr();
  auto c = made<PlainNet>().ptr();
  Trainer<PlainNet, CrossEntropyLoss>(a).step(classes());
  Trainer<std::shared_ptr<PlainNetImpl>, CrossEntropyLoss>(b).step(classes());
  Trainer<PlainNetImpl, CrossEntropyLoss>(c).step(classes());
  CHECK(!same_bits(values_of(a), values_of(made<PlainNet>())));
  CHECK(same_bits(values_of(a), values_of(b)));
  CHECK(same_bits(values_of(a), values_of(c)));
}

TEST_CASE("model: deduced, or with values for words that are not written, it is the same trainer") {
  PlainNet a = made<PlainNet>(), b = made<PlainNet>(), c = made<PlainNet>();
  Trainer deduced{a, AdamW{.lr = 0.1}, CrossEntropyLoss{}};
  static_assert(std::is_same_v<decltype(deduced), Trainer<PlainNet, AdamW, CrossEntropyLoss>>);
  static_assert(
      std::is_same_v<decltype(deduced)::Recipe, Trainer<PlainNet, CrossEntropyLoss>::Recipe>);
  Trainer<PlainNet, CrossEntropyLoss> valued(b, AdamW{.lr = 0.1});
  Trainer<PlainNet, CrossEntropyLoss, AdamW> written(c);
  deduced.step(classes()), valued.step(classes());
  CHECK(same_bits(values_of(a), values_of(b)));
  CHECK(written.get<AdamW>().lr == 1e-3);
  written.get<AdamW>().lr = 0.1;
  CHECK(written.step(classes()).learning_rate == 0.1);
  CHECK(same_bits(values_of(a), values_of(c)));
}

TEST_CASE("model: units are found by declaration, by specialisation, as children, or not at all") {
  auto names = [](auto model) {
    std::vector<std::string> found;
    auto table = UnitTable::of(model);
    for (const Unit& unit : table.units()) found.push_back(unit.name);
    return found;
  };
  using Names = std::vector<std::string>;
  CHECK(names(test::OpenNet()) == Names{"", "stack", "stack.a", "stack.b", "last"});
  CHECK(names(Theirs()) == Names{"", "blocks.0", "blocks.1"});
  CHECK(names(torch::nn::Sequential(Block(), torch::nn::ReLU(), test::Layer())) ==
        Names{"", "0", "1", "2"});
  CHECK(names(PlainNet()) == Names{""});
}

TEST_CASE("model: a parameter belongs to its innermost unit, a shared one to the root") {
  using Names = std::vector<std::string>;
  Theirs model;
  auto table = UnitTable::of(model);
  CHECK(table.units()[0].names == Names{"only", "in.weight", "in.bias", "blocks.0.scale"});
  CHECK(table.units()[1].names == Names{"blocks.0.w.weight", "blocks.0.w.bias"});
  CHECK(table.units()[2].names == Names{"blocks.1.w.weight", "blocks.1.w.bias"});
  test::OpenNet nested;
  auto inner = UnitTable::of(nested);
  CHECK(inner.units()[0].names.empty());
  CHECK(inner.units()[1].names.empty());
  CHECK(inner.units()[2].names == Names{"stack.a.w.weight", "stack.a.w.bias"});
}

TEST_CASE("model: a Sequential trains child by child as it does whole") {
  auto model = [] {
    torch::manual_seed(0);
    return torch::nn::Sequential(torch::nn::Linear(3, 8), torch::nn::Tanh(),
                                 torch::nn::Linear(8, 5));
  };
  auto a = model(), b = model(), c = model();
  Trainer<torch::nn::Sequential, CrossEntropyLoss, Checkpoint<Full>>(a).step(classes());
  Trainer<torch::nn::Sequential, CrossEntropyLoss>(b).step(classes());
  auto whole = [](auto&, torch::nn::Sequential& net, const Rows& batch) {
    auto sum =
        at::cross_entropy_loss(net->forward(batch.input), batch.target, {}, at::Reduction::Sum);
    return Loss{sum, batch.target.numel()};
  };
  Trainer{c, whole}.step(classes());
  CHECK(same_bits(values_of(a), values_of(c)));
  CHECK(same_bits(values_of(b), values_of(c)));
}

TEST_CASE("model: a loss in another file, through Runner, equals the one in a header") {
  auto batch = Rows{random({6, 4}), random({6, 4}, 2)};
  auto train = [&]<class Net, class... Ps>(Trainer<Net, Ps...>*, Net model) {
    Trainer<Net, Ps...> trainer(model);
    torch::manual_seed(7);
    Report report;
    for (int i = 0; i < 3; ++i) report = trainer.step(batch);
    auto values = values_of(model);
    values.push_back(report.outputs);
    return values;
  };
  using test::ClosedNet, test::OpenNet;
  auto open = train((Trainer<OpenNet, Accumulate<2>>*)nullptr, made<OpenNet>());
  CHECK(same_bits(train((Trainer<ClosedNet, Accumulate<2>>*)nullptr, made<ClosedNet>()), open));
  CHECK(same_bits(
      train((Trainer<ClosedNet, Accumulate<2>, Checkpoint<Full>>*)nullptr, made<ClosedNet>()),
      open));
  CHECK(same_bits(
      train((Trainer<OpenNet, Accumulate<2>, Checkpoint<Full>>*)nullptr, made<OpenNet>()), open));
}

namespace {

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

}  // namespace

template <>
std::vector<Couples> ikebana::split(const Couples& batch, std::int64_t n) {
  std::vector<Couples> parts;
  for (std::int64_t i = 0; i < n; ++i)
    parts.push_back({batch.input.narrow(0, 2 * i, 2), batch.target.narrow(0, 2 * i, 2)});
  return parts;
}

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

TEST_CASE("batch: however it is wrapped or cut, the update is that of the whole") {
  auto rows = classes(7);
  auto after = [](auto trainer, const auto& batch) {
    trainer.step(batch);
    return values_of(trainer.model());
  };
  using Whole = Trainer<PlainNet, CrossEntropyLoss, SGD>;
  using Cut = Trainer<PlainNet, CrossEntropyLoss, SGD, Accumulate<3>>;
  auto net = made<PlainNet>;
  auto whole = after(Whole(net()), rows);
  CHECK(same_bits(after(Whole(net()), std::pair(rows.input, rows.target)), whole));
  CHECK(same_bits(after(Whole(net()), torch::data::Example<>(rows.input, rows.target)), whole));
  CHECK(test::worst_relative(after(Cut(net()), rows), whole) < 1e-6);
  CHECK(test::worst_relative(after(Cut(net()), std::tuple(rows.input, rows.target)), whole) < 1e-6);
  Cut coupled(net());
  CHECK(
      coupled.step(Couples{rows.input.narrow(0, 0, 6), rows.target.narrow(0, 0, 6)}).microbatches ==
      3);
}
