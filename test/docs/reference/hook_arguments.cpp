// Examples of the reference: what hooks are given.
#include "policies.hpp"

// example: UpdateRounding
struct RoundToNearest : ikebana::UpdateRounding {
  void prepare_rounding(const at::TensorOptions&, std::int64_t) override {}
  void write(const at::Tensor& master, const at::Tensor& exact, std::size_t) noexcept override {
    master.copy_(exact);  // a BF16 master weight
  }
};
// end

// example: GradientStorage
struct KeepGradients : ikebana::GradientStorage {
  ikebana::Tensors gradients = ikebana::Tensors(100);
  at::Tensor place_gradient(const at::Tensor& gradient, std::size_t k) override {
    return gradients[k] = gradient.clone();  // or a tensor where master `k` is
  }
};
// end

namespace test::reference::hook_arguments {

TEST_CASE("reference: what hooks are given") {
  {
    // example: StepRate
    Mechanism<StepLR> schedule(StepLR{.step_size = 30, .gamma = 0.1});
    StepRate rate(schedule, 30);  // the rate of step 30, counted from 0
    double lr = rate(1e-3);       // 1e-4
    // end
    CHECK(lr == doctest::Approx(1e-4));
  }
  {
    // example: RowRange, rows_of_rank, Slice
    RowRange rows = rows_of_rank(/*all=*/10, /*rank=*/1, /*ranks=*/4);  // rows 3, 4 and 5
    Slice slice{.sizes = {10, 8}, .rows = rows};                        // a weight (10, 8)
    std::int64_t begin = slice.first_element();
    // end
    CHECK((rows.first == 3 && rows.count == 3 && begin == 24));
  }
  {
    // example: RankGroup, SingleRank, Ranks, OneRankGroup
    SingleRank alone;
    Ranks ranks(alone, alone);                         // several ranks: groups that exchange
    at::Tensor sum = ranks.data().sum(at::ones({3}));  // over the ranks with other samples
    at::Tensor same = OneRankGroup::sum(sum);          // the group of a recipe for one rank
    // end
    CHECK(same_bits(same, at::ones({3})));

    RankGroup& group = alone;
    // example: TensorsOfRanks
    TensorsOfRanks to(1), from(1);  // for each rank; none for this one
    group.begin_swap(to, from);
    group.finish_swap();
    // end
    CHECK(from[0].empty());
  }
}

TEST_CASE("reference: what backward and storages are given") {
  {
    const at::Tensor weight = at::ones({3}).requires_grad_(), loss = weight.square().sum();
    // example: Roots
    Roots roots{.sums = {loss}, .seeds = {at::ones({}) / 4}};  // the gradient of loss / 4
    torch::autograd::backward(roots.sums, roots.seeds);
    roots.clear();
    // end
    CHECK(same_bits(weight.grad(), at::full({3}, 0.5)));
  }
  {
    StateStorage* storage = nullptr;
    const Tensors state{at::ones({3}), at::ones({4})};
    std::int64_t sum = 0;
    // example: for_windows, DTypes
    DTypes dtypes;
    for_windows(storage, state, /*writes=*/false, [&](const Tensors& some) {
      for (const at::Tensor& one : some) dtypes.push_back(one.scalar_type());
    });
    // end
    for_windows(storage, state, false, [&](const Tensors& some) { sum += some[0].numel(); });
    CHECK((dtypes.size() == 2 && sum == 3));
  }
  {
    RoundToNearest rounding;
    const at::Tensor master = at::zeros({2}, at::kBFloat16);
    rounding.write(master, at::ones({2}), 0);
    CHECK(master.sum().item<double>() == 2);
    CHECK(KeepGradients().place_gradient(at::ones({2}), 3).sum().item<double>() == 2);
  }
}

}  // namespace test::reference::hook_arguments
