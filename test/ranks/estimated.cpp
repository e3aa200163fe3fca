// Estimates of one of several ranks: the parts of all ranks are the whole, and estimates from
// shapes equal what ranks measure.
#include <ikebana/estimate.hpp>

#include "test.hpp"

#include "groups.hpp"

using namespace ikebana;

namespace test::ranks::estimated {

using One = Trainer<Counted, AdamW>;
auto maker = [] { return make<Counted>(); };

/// Says in how many parts parameters, gradients and moments are cut.
struct Cut {
  std::int64_t parameters, gradients, state;
};

/// But for a parameter that no rank uses: ranks that do not exist might.
void check_close(std::int64_t a, std::int64_t b) {
  CHECK(static_cast<double>(a) == doctest::Approx(static_cast<double>(b)).epsilon(0.005));
}

/// Units leave for backward what they leave on one rank, and no message. Their gradients count as
/// theirs, also as parts of a bucket, which has room for unused parameters, too.
void check_units(const Estimate& e, const Estimate& whole, const Cut& cut) {
  REQUIRE(e.units.size() == whole.units.size());
  for (std::size_t u = 0; u < e.units.size(); ++u) {
    CAPTURE(e.units[u].name);
    CHECK(e.units[u].activations == whole.units[u].activations);
    const std::int64_t most = whole.units[u].gradients + 256;
    CHECK((e.units[u].gradients > 0 && e.units[u].gradients <= most));
    if (cut.gradients == 1) CHECK(e.units[u].gradients >= whole.units[u].gradients);
  }
}

/// Checks microbatches, of which a later one finds messages on their way.
template <class How>
void check_halves(const Rows& batch, const EstimateOptions& options, const Cut& cut) {
  using Sharded = Trainer<Counted, AdamW, Accumulate<2>, Shard<How>>;
  const Estimate whole = estimate<Trainer<Counted, AdamW, Accumulate<2>>>(maker, shapes(batch));
  check_units(estimate<Sharded>(maker, shapes(batch), options), whole, cut);
}

template <class How>
std::vector<Estimate> measured_on_ranks(const Rows& batch) {
  std::vector<Counted> models = {make<Counted>(), make<Counted>()};
  std::vector<Estimate> measured(2);
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    measured[r] = estimate<Trainer<Counted, AdamW, Shard<How>>>([&] { return models[r]; }, batch,
                                                                Shard<How>{.process_group = group});
  });
  return measured;
}

template <class How>
void check(const Cut& cut) {
  using Sharded = Trainer<Counted, AdamW, Shard<How>>;
  const Rows batch = batches(1, 4)[0];
  const Estimate whole = estimate<One>(maker, shapes(batch));
  std::vector<Estimate> of_ranks;
  Estimate sum;
  for (const std::int64_t r : {0, 1}) {
    const auto options = EstimateOptions{.ranks = 2, .rank = r};
    const Estimate e = estimate<Sharded>(maker, shapes(batch), options);
    CHECK((e.rank == r && e.ranks == 2 && !e.is_measured));
    CHECK(e.elements == whole.elements);
    check_units(e, whole, cut);
    check_halves<How>(batch, options, cut);
    sum.parameters += e.parameters, sum.gradients += e.gradients;
    sum.optimizer_state += e.optimizer_state;
    of_ranks.push_back(e);
    CHECK_THROWS_WITH_AS(estimate<Sharded>(maker, batch, options),
                         doctest::Contains("needs real ones"), BadValue);
  }
  CHECK(sum.parameters == 2 * whole.parameters / cut.parameters);
  check_close(sum.gradients, 2 * whole.gradients / cut.gradients);
  check_close(sum.optimizer_state, 2 * whole.optimizer_state / cut.state);

  const std::vector<Estimate> measured = measured_on_ranks<How>(batch);
  for (const std::size_t r : {0U, 1U}) {
    CAPTURE(r);
    const Estimate &m = measured[r], &e = of_ranks[r];
    CHECK((m.is_measured && m.ranks == 2 && m.rank == e.rank));
    CHECK(m.parameters == e.parameters);
    check_close(m.gradients, e.gradients);
    check_close(m.optimizer_state, e.optimizer_state);
    CHECK(m.buffers == e.buffers);
  }
}

TEST_CASE("ranks: estimates of all ranks add up to the whole, and are what ranks measure") {
  check<DDP>({1, 1, 1});
  check<ZeRO1>({1, 2, 2});
  check<ZeRO2>({1, 2, 2});
  check<FSDP>({2, 2, 2});
  check<HSDP<1>>({1, 1, 1});
}

/// Rank 1 receives rank 0's buffers.
struct NormedImpl : torch::nn::Module {
  using units = Units<torch::nn::BatchNorm1d>;
  torch::nn::Linear up = register_module("up", torch::nn::Linear(3, 256));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(256));
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor y = run(norm, up(batch.input));
    if (reads) y.sum().item();
    return {.sum = y.square().sum(), .count = y.size(0)};
  }
  bool reads = false;
};
TORCH_MODULE(Normed);

template <class How>
Estimate of_normed(std::int64_t rank, std::int64_t ranks = 2, bool reads = false) {
  const Rows batch{at::empty({8, 3}, at::kMeta), at::empty({8}, at::kMeta)};
  auto normed = [reads] {
    Normed made;
    made->reads = reads;
    return made;
  };
  return estimate<Trainer<Normed, AdamW, Shard<How>>>(
      normed, batch, EstimateOptions{.ranks = ranks, .rank = rank});
}

TEST_CASE_TEMPLATE("ranks: a model with batch norm is estimated on each rank", How, DDP, ZeRO1,
                   ZeRO2, FSDP) {
  const Estimate first = of_normed<How>(0), second = of_normed<How>(1);
  CHECK(first.buffers == 2 * 256 * 4 + 8);
  CHECK(second.buffers == first.buffers);
  check_close(second.parameters, first.parameters);
}

TEST_CASE("ranks: what shapes alone do not tell is one sentence, whose advice can be taken") {
  const std::string text = message_of<Error>([] { of_normed<FSDP>(1, 2, /*reads=*/true); });
  CHECK(contains(text, "Start the ranks, leave `ranks` out"));
  CHECK(!contains(text, "Give it a batch"));
  CHECK(!contains(text, "frame #"));
}

}  // namespace test::ranks::estimated
