// A unit is away, arriving or here: what is here at a time, and that what is away is not used.
#include "test.hpp"

#include "nets.hpp"

using namespace ikebana;

namespace test::ranks {

/// Four units in a row.
struct ChainImpl : torch::nn::Module {
  using units = Units<Inner>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width));
  torch::nn::ModuleList rows = register_module("rows", torch::nn::ModuleList());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 3));
  int runs = 1;
  ChainImpl() {
    for (int i = 0; i < 4; ++i) rows->push_back(Inner());
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = embed(batch.input);
    for (const auto& row : *rows)
      for (int i = 0; i < runs; ++i) x = run(*row->as<Inner>(), x);
    return {at::cross_entropy_loss(head(x), batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Chain);

struct Seen {
  std::vector<std::vector<at::Tensor>> weights = std::vector<std::vector<at::Tensor>>(2);
  std::vector<Gathered> gathered = std::vector<Gathered>(2);
};
/// Makes three steps and an evaluation on two ranks.
template <class... Ps>
Seen seen(Double<Kind::FSDP> policy, int runs, Ps... policies) {
  Seen out;
  std::vector<Chain> models{make<Chain>(), make<Chain>()};
  const auto all = batches(3, 4);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Double<Kind::FSDP> own = policy;
    own.wire = wire;
    models[r]->runs = runs;
    Trainer trainer{models[r], AdamW{.lr = 1e-2}, policies..., own};
    auto gathered = trainer.template mechanism<Double<Kind::FSDP>>().gathered;
    for (const Rows& batch : all) {
      trainer.step(part(batch, wire->rank(), 2));
      CHECK(gathered->here.empty());
    }
    trainer.evaluate(std::vector{part(all[0], wire->rank(), 2)});
    for (const auto& p : models[r]->parameters()) CHECK(ikebana::detail::is_away(p));
    out.gathered[r] = *gathered;
    out.weights[r] = whole(trainer);
  });
  CHECK(same_bits(out.weights[0], out.weights[1]));
  return out;
}

template <class... Ps>
void check_chain(std::size_t here, std::size_t here_ahead, int gathers_of_a_step, Ps... policies) {
  Chain model = make<Chain>();
  Trainer alone{model, AdamW{.lr = 1e-2}, policies..., Accumulate<2>{}};
  for (const Rows& batch : batches(3, 4)) alone.step(batch);
  const Tensors expected = whole(alone);
  for (bool ahead : {false, true})
    for (bool delay : {false, true}) {
      CAPTURE(ahead);
      const Seen got = seen({.ahead = ahead, .delay = delay}, 1, policies...);
      CHECK(same_bits(got.weights[0], expected));
      for (const Gathered& gathered : got.gathered) {
        CHECK(gathered.most_here == (ahead ? here_ahead : here));
        CHECK(gathered.gathers == 3 * gathers_of_a_step + 5);  // and an evaluation
        CHECK((gathered.begun > 0) == ahead);
        CHECK(gathered.here.empty());
      }
    }
}
TEST_CASE("units: besides the root one is here, and one on its way; nothing is gathered in vain") {
  check_chain(2, 3, 1 + 2 * 4 - 1);  // the last one stays for its backward
  check_chain(2, 3, 1 + 2 * 4 - 1, Checkpoint<Full>{});
  // The frame of two units is computed again while the backward of the second one needs it.
  check_chain(3, 3, 1 + 2 * 4 - 1 + 2, Checkpoint<Segments<2>>{});
}

TEST_CASE("units: one that is run twice is here once") {
  const Seen once = seen({.ahead = true}, 2), plain = seen({.ahead = false}, 2);
  CHECK(same_bits(once.weights[0], plain.weights[0]));
  for (const Gathered& gathered : once.gathered) CHECK(gathered.most_here == 3);
}

TEST_CASE("units: Precision says in which dtype gradients are summed over ranks") {
  const Seen got = seen({}, 1, Precision<BF16Weights>{});
  CHECK(got.gathered[0].reduces == 3 * 5);
  for (const std::string& dtype : got.gathered[0].reduce_dtypes) CHECK(dtype == "Float");
}

/// Parameters of BF16Weights are connected to their masters by the same node in each step.
TEST_CASE("units: gathered parameters that stay cost no node in a step") {
  struct Looks {
    std::vector<const void*> nodes;
  };
  auto looks = std::make_shared<Looks>();
  Counted model = make<Counted>();
  Trainer trainer{model, Precision<BF16Weights>{}, Accumulate<2>{}};
  model->during_forward = [&] { looks->nodes.push_back(model->first->up->weight.grad_fn().get()); };
  for (const Rows& batch : batches(3, 4)) trainer.step(batch);
  REQUIRE(looks->nodes.size() == 6);
  for (const void* node : looks->nodes) {
    CHECK(node != nullptr);
    CHECK(node == looks->nodes[0]);
  }
  for (const auto& p : model->parameters()) CHECK(p.is_leaf());  // between steps
}

/// Records the order of the hooks of backward.
struct Hears {
  using axis = ikebana::axis::observe;
};
std::vector<std::string> heard;

}  // namespace test::ranks

template <>
struct ikebana::Mechanism<test::ranks::Hears> : ikebana::ObserveHooks {
  static constexpr bool listens_to_backward = true;
  test::ranks::Hears values;
  explicit Mechanism(test::ranks::Hears v) : values(v) {}
  void before_unit_backward(const Unit& unit) { test::ranks::heard.push_back("<" + unit.name); }
  void after_unit_backward(const Unit& unit) { test::ranks::heard.push_back(unit.name + ">"); }
};

namespace test::ranks {

/// Units side by side: each has the same argument.
struct BranchesImpl : torch::nn::Module {
  using units = Units<Inner>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width));
  Inner a = register_module("a", Inner()), b = register_module("b", Inner());
  bool frozen = false;
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor x = embed(batch.input);
    const at::Tensor first = run(a, x), second = run(b, x);
    return {(first * second).sum(), batch.input.size(0)};
  }
};
TORCH_MODULE(Branches);

TEST_CASE("units: the end of a unit's backward is heard before the beginning of the next one") {
  auto order = [](auto trainer) {
    heard.clear();
    trainer.step(batches(1, 4)[0]);
    return heard;
  };
  const std::vector<std::string> row{"<rows.3", "rows.3>", "<rows.2", "rows.2>",
                                     "<rows.1", "rows.1>", "<rows.0", "rows.0>"};
  CHECK(order(Trainer{make<Chain>(), Hears{}}) == row);
  CHECK(order(Trainer{make<Chain>(), Hears{}, Precision<BF16Weights>{}}) == row);
  CHECK(order(Trainer{make<Chain>(), Hears{}, Checkpoint<Full>{}}) == row);
  const std::vector<std::string> branches{"<b", "b>", "<a", "a>"};
  CHECK(order(Trainer{make<Branches>(), Hears{}}) == branches);
  CHECK(order(Trainer{make<Branches>(), Hears{}, Precision<BF16Weights>{}}) == branches);
}

}  // namespace test::ranks
