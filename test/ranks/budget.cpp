// Tests Checkpoint<Budget> on several ranks: one plan, and the bits of one rank.
#include "test.hpp"

#include "nets.hpp"

using namespace ikebana;

namespace test::ranks::budget {

using ikebana::detail::Choice, ikebana::detail::Plan;
using Kept = Checkpoint<ActivationBudget<>>;

/// Six units in a row.
struct RowImpl : torch::nn::Module {
  using units = Units<Inner>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width));
  torch::nn::ModuleList rows = register_module("rows", torch::nn::ModuleList());
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 3));
  RowImpl() {
    for (int i = 0; i < 6; ++i) rows->push_back(Inner());
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = embed(batch.input);
    for (const auto& row : *rows) x = run(*row->as<Inner>(), x);
    return {at::cross_entropy_loss(head(x), batch.target, {}, at::Reduction::Sum),
            batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Row);

/// Returns the middle between what the smallest plan and Keep need.
std::int64_t half(const ikebana::detail::Costs& costs) {
  const std::int64_t low = ikebana::detail::smallest_budget(costs);
  const std::int64_t high = predict(costs, Plan(costs.size(), Choice::Keep)).peak;
  return low + (high - low) / 2;
}

template <Kind K>
void check_one_plan() {
  const auto all = batches(5, 4);
  Row model = make<Row>();
  Trainer alone{model, AdamW{.lr = 1e-2}, Accumulate<2>{}};
  for (const Rows& batch : all) alone.step(batch);
  const Tensors expected = whole(alone);

  std::vector<Row> models{make<Row>(), make<Row>()};
  std::vector<std::vector<Plan>> plans(2);
  std::vector<std::vector<at::Tensor>> weights(2);
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], AdamW{.lr = 1e-2}, Kept{.limit = GiB(1)}, Double<K>{.wire = wire}};
    auto& mechanism = trainer.template mechanism<Kept>();
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i == 2) trainer.template get<Kept>().limit = half(mechanism.planned().planned);
      trainer.step(part(all[i], wire->rank(), 2));
      plans[r].push_back(mechanism.planned().plan);
    }
    weights[r] = whole(trainer);
  });
  CHECK(same_bits(weights[0], expected));
  CHECK(same_bits(weights[1], expected));
  CHECK((plans[0] == plans[1]));
  CHECK((plans[0][1] == Plan(6, Choice::Keep)));
  CHECK((plans[0][2] != plans[0][1]));
  CHECK((plans[0][4] == plans[0][2]));
}
TEST_CASE("budget: ranks that hold whole parameters use one plan, with the bits of one rank") {
  check_one_plan<Kind::DDP>();
}
TEST_CASE("budget: ranks that hold slices use one plan, with the bits of one rank") {
  check_one_plan<Kind::FSDP>();
}

TEST_CASE("budget: of ranks that measured other numbers the larger bytes count, and all times") {
  using ikebana::detail::RankCosts;
  RankCosts one, other;
  one.costs.units.resize(3), other.costs.units.resize(2);
  for (std::size_t i = 0; i < 3; ++i) one.costs.units[i].unit = static_cast<std::int64_t>(i);
  other.costs.units[0].keep = 5, other.costs.units[0].time = 2, one.costs.units[0].time = 3;
  one.costs.units[0].keep = 4, one.costs.units[0].input = 2, one.costs.fixed = 7;
  one.costs.units[0].joins = other.costs.units[0].joins = true;
  one.budget = 10, other.budget = 9;
  other.costs.units[1].unit = 9;  // another unit than at the first rank
  RankCosts sum = RankCosts::of(one.text());
  sum.add(RankCosts::of(other.text()));
  CHECK(sum.budget == 9);
  CHECK(sum.costs.fixed == 7);
  CHECK(sum.costs.size() == 3);
  CHECK(sum.costs.units[0].keep == 5);
  CHECK(sum.costs.units[0].input == 0);
  CHECK(sum.costs.units[0].time == 5);
  CHECK(sum.costs.units[0].is_measured);
  CHECK_FALSE(sum.costs.units[1].is_measured);
  CHECK(sum.costs.units[2].is_measured);
}

}  // namespace test::ranks::budget
