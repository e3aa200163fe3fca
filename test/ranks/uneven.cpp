// Ranks with batches of unequal sizes, without rows, or with fewer microbatches: training equals
// that of one rank on the same samples.
#include "test.hpp"

#include "on_ranks.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

/// Samples that are augmented.
struct Samples {
  std::int64_t count;
  std::int64_t size() const { return count; }
  Rows get(std::int64_t i, SampleRng& rng) const {
    return {at::sin(at::arange(5) * double(i + 1)) + 0.1 * at::randn({5}, rng.generator()),
            at::scalar_tensor(i % 3, at::kLong)};
  }
};
/// Runs two epochs of a program in which only the numbers of the rank differ.
template <class T>
std::vector<at::Tensor> program(T& trainer, DataLoaderOptions options) {
  options.shuffle = true, options.num_replicas = trainer.world_size(),
  options.rank = trainer.rank();
  std::vector<at::Tensor> losses;
  DataLoader loader{Samples{17}, options};
  while (loader.epoch() < 2)
    for (auto& batch : loader) losses.push_back(trainer.step(batch).mean());
  return losses;
}
template <class Model, class... Ps>
void same_on_any_number_of_ranks(std::int64_t batch_size, Ps... policies) {
  CAPTURE(batch_size);
  auto f = [&](auto& trainer, std::int64_t) {
    return program(trainer, {.batch_size = batch_size, .seed = 4});
  };
  const Result expected = on_one<Model>(f, policies...);
  for (std::int64_t ranks : {2, 3}) {
    check_close(on_ranks<Kind::DDP, Model>(ranks, f, policies...), expected);
    check_close(on_ranks<Kind::ZeRO2, Model>(ranks, f, policies...), expected);
    check_close(on_ranks<Kind::FSDP, Model>(ranks, f, policies...), expected);
  }
}

}  // namespace

TEST_CASE("uneven: the same program has the same losses and weights on 1, 2 and 3 ranks") {
  same_on_any_number_of_ranks<Counted>(7, slow);
  same_on_any_number_of_ranks<Late>(2, slow, ClipGradNorm{.max_norm = 0.5});  // an empty rank
  same_on_any_number_of_ranks<Late>(7, slow, Accumulate<2>{}, Checkpoint<Full>{});
  same_on_any_number_of_ranks<Terms>(8, slow, Accumulate<4>{});  // 3, 3 and 2 microbatches
}

namespace {

/// Rank 0 has all rows of each batch, or each range of them, and the other none.
template <class Model, class... Ps>
void changes_no_bit(Ps... policies) {
  const auto all = batches(3, 4);
  auto losses_of = [&](auto& trainer, std::int64_t rank) {
    std::vector<at::Tensor> losses;
    for (const Rows& batch : all) {
      const Report report = trainer.step(rows_of(batch, 0, rank == 0 ? 4 : 0));
      losses.push_back(report.mean());
      CHECK(report.count() == 4);
      CHECK(report.outputs.defined() == (rank == 0));
    }
    const std::vector<Rows> range{rows_of(all[0], 0, 0), all[0], all[1]};
    losses.push_back(trainer.step(rank == 0 ? range : std::vector<Rows>(2, range[0])).mean());
    return losses;
  };
  Trainer alone{Model(make<Model>()), policies...};
  Result expected;
  for (const Rows& batch : all) expected.losses.push_back(alone.step(batch).mean());
  expected.losses.push_back(alone.step(std::vector<Rows>{all[0], all[1]}).mean());
  expected.weights = whole(alone);
  check_bits(on_ranks<Kind::DDP, Model>(2, losses_of, policies...), expected);
  check_bits(on_ranks<Kind::ZeRO2, Model>(2, losses_of, policies...), expected);
  check_bits(on_ranks<Kind::FSDP, Model>(2, losses_of, policies...), expected);
}
/// A row of zeros would make the loss infinite, and so the gradients.
struct RootsImpl : torch::nn::Module {
  using units = Units<torch::nn::Linear>;
  torch::nn::Linear first = register_module("first", linear()),
                    second = register_module("second", linear());
  at::Tensor scale = register_parameter("scale", at::ones({1, 16}));
  static torch::nn::Linear linear() {
    return torch::nn::Linear(torch::nn::LinearOptions(5, 16).bias(false));
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const at::Tensor both = (run(first, batch.input) + run(second, batch.input)) * scale;
    return {both.abs().sqrt().sum() - both.abs().log().sum(), batch.input.size(0), both};
  }
};
TORCH_MODULE(Roots);

}  // namespace

TEST_CASE("uneven: a rank without a row changes no bit") {
  changes_no_bit<Counted>(slow, Precision<BF16Weights>{}, Checkpoint<Segments<2>>{});
  changes_no_bit<Terms>(slow, Precision<FP16>{.init_scale = 8});
  changes_no_bit<Roots>(AdamW{.lr = 1e-3});
  changes_no_bit<Roots>(AdamW{.lr = 1e-3}, Precision<BF16Weights>{}, EMA{.decay = 0.5});
}

namespace {

/// Rank r has the batches of `parts[r]`, each of one row or more.
template <Kind K>
void ranges(const std::vector<std::vector<std::int64_t>>& parts) {
  CAPTURE(K);
  const Rows all = batches(1, 9)[0];
  auto range = [&](std::size_t rank) {
    std::vector<Rows> mine;
    std::int64_t first = 0;
    for (std::size_t r = 0; r <= rank; ++r)
      for (std::int64_t rows : parts[r]) {
        if (r == rank) mine.push_back(rows_of(all, first, rows));
        first += rows;
      }
    return mine;
  };
  auto f = [&](auto& trainer, std::int64_t rank) {
    auto& seen = *trainer.template mechanism<Double<K>>().gathered;
    const auto mine = range(static_cast<std::size_t>(rank));
    const Report report = trainer.step(mine);
    const std::int64_t most = K == Kind::DDP ? std::ssize(mine) : 3;
    CHECK(report.microbatches == most);
    std::vector<bool> last_only(static_cast<std::size_t>(most));
    last_only.back() = true;
    CHECK((seen.syncs == last_only));
    CHECK(seen.here.empty() == (K != Kind::ZeRO2));
    return std::vector{report.mean(), trainer.step(mine).mean()};
  };
  auto whole_batch = [&](auto& trainer, std::int64_t) {
    return std::vector{trainer.step(all).mean(), trainer.step(all).mean()};
  };
  const Result expected = on_one<Late>(whole_batch, slow);
  check_close(on_ranks<K, Late>(std::ssize(parts), f, slow), expected);
}

}  // namespace

TEST_CASE("uneven: ranks with fewer microbatches compute with the others, or not at all") {
  for (const auto& parts :
       {std::vector<std::vector<std::int64_t>>{{2, 1, 3}, {1, 2}}, {{4}, {1, 1, 1}, {1, 1}}}) {
    ranges<Kind::DDP>(parts);
    ranges<Kind::ZeRO2>(parts);
    ranges<Kind::FSDP>(parts);
  }
}

}  // namespace test::ranks
