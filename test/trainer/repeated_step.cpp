// Tests that a policy around a step may make it again after an exception: from the state before it,
// and as one step to what observes it.
#include "test.hpp"

#include "compare.hpp"

using namespace ikebana;

namespace test::repeated_step {

/// Doubles the microbatches if the step throws, and makes it again.
struct Splits {
  using axis = axis::accumulate;
  std::int64_t microbatches = 1;
};
/// Counts what it sees.
struct Counts {
  using axis = axis::observe;
  int steps = 0;
};
}  // namespace test::repeated_step

template <>
struct ikebana::Mechanism<test::repeated_step::Splits> : ikebana::AccumulateHooks {
  test::repeated_step::Splits values;
  int attempts = 0;
  std::int64_t rows_seen = 0;
  explicit Mechanism(test::repeated_step::Splits v) : values(v) {}
  template <class Core, class Batch, class Next>
  Report around_step(Core&, const Batch& batch, Next&& next) {
    for (rows_seen = rows(batch);; values.microbatches *= 2) try {
        ++attempts;
        return next();
      } catch (const std::exception&) {
        if (values.microbatches * 2 > rows_seen) throw;
      }
  }
  template <class Batch>
  auto split(const Batch& batch) {
    return ikebana::split(batch, values.microbatches);
  }
};
template <>
struct ikebana::Mechanism<test::repeated_step::Counts> : ikebana::ObserveHooks {
  test::repeated_step::Counts values;
  explicit Mechanism(test::repeated_step::Counts v) : values(v) {}
  template <class Core, class Batch, class Next>
  decltype(auto) around_step(Core&, const Batch&, Next&& next) {
    ++values.steps;
    return next();
  }
};
namespace test::repeated_step {

using Rows = std::pair<at::Tensor, at::Tensor>;

/// Has memory for so many rows; batch norm and dropout.
struct NarrowImpl : torch::nn::Module {
  torch::nn::Linear in = register_module("in", torch::nn::Linear(3, 5));
  Noise noise = register_module("noise", Noise(5));
  std::int64_t limit = 1000;
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = noise(in(x));
    if (x.size(0) > limit) throw std::runtime_error("not enough memory");
    return y;
  }
};
TORCH_MODULE(Narrow);

TEST_CASE("repeated step: accumulate may make a step again, from the state before it") {
  auto trained = [](std::int64_t limit, auto... policies) {
    torch::manual_seed(0);
    Narrow model;
    model->limit = limit;
    Trainer trainer{model, MSELoss{}, AdamW{}, policies...};
    torch::manual_seed(5);
    for (int i = 0; i < 3; ++i) trainer.step(Rows{random({8, 3}, i), random({8, 5}, i + 9)});
    return std::pair(values_of(model), std::move(trainer));
  };
  auto [fitted, trainer] = trained(2, Splits{}, Counts{});
  auto [split, reference] = trained(2, Accumulate<4>{});
  CHECK(same_bits(fitted, split));
  CHECK(trainer.steps() == 3);
  CHECK(trainer.get<Counts>().steps == 3);
  CHECK(trainer.mechanism<Splits>().attempts == 5);  // with 1, 2, and 4 microbatches
  auto too_large = [&] {
    trainer.model()->limit = 0;
    trainer.step(Rows{random({8, 3}, 1), random({8, 5}, 1)});
  };
  CHECK_THROWS(too_large());
  CHECK(trainer.steps() == 3);
}

}  // namespace test::repeated_step
