// Tests models in every form that a trainer accepts.
#include "test.hpp"

#include "compare.hpp"
#include "runner_net.hpp"

using namespace ikebana;

namespace test::model {

using Rows = Pairs;

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear w = register_module("w", torch::nn::Linear(3, 3));
  at::Tensor forward(const at::Tensor& x) { return at::tanh(w(x)); }
};
TORCH_MODULE(Block);
/// Units of a model that cannot be edited; a tensor that both blocks and the root share.
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

}  // namespace test::model

template <>
struct ikebana::UnitsOf<test::model::TheirsImpl> {
  using type = ikebana::Units<test::model::Block>;
};

namespace test::model {

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

TEST_CASE("model: deduced, or with values for policies not written, it is the same trainer") {
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

TEST_CASE("model: a Sequential trains child by child as it does as a whole") {
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

}  // namespace test::model
