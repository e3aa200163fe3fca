// Ranks with batches of unequal sizes, without rows, or with fewer microbatches: training equals
// that of one rank on the same samples.
#include "test.hpp"

#include "nets.hpp"

using namespace ikebana;

namespace test::ranks {

namespace {

template <class T>
std::vector<at::Tensor> whole(T& trainer) {
  std::vector<at::Tensor> all;
  trainer.with_full_weights([&](auto& model) {
    for (const auto& p : model->parameters()) all.push_back(p.detach().clone());
  });
  return all;
}
/// Losses of all steps, then the weights.
struct Result {
  std::vector<at::Tensor> losses, weights;
};
void check_close(const Result& got, const Result& expected) {
  CHECK(worst_relative(got.losses, expected.losses) < 1e-6);
  CHECK(worst_relative(got.weights, expected.weights) < 1e-6);
}
void check_bits(const Result& got, const Result& expected) {
  CHECK(same_bits(got.losses, expected.losses));
  CHECK(same_bits(got.weights, expected.weights));
}

/// Calls `f(trainer, rank)` on each of the ranks. Returns their results, which are the same.
template <Kind K, class Model, class F, class... Ps>
Result on_ranks(std::int64_t ranks, const F& f, Ps... policies) {
  CAPTURE(K);
  CAPTURE(ranks);
  std::vector<Model> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Model>());
  std::vector<Result> all(models.size());
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], policies..., Double<K>{.wire = wire}};
    all[r].losses = f(trainer, wire->rank());
    all[r].weights = whole(trainer);
  });
  for (const Result& one : all) check_bits(one, all[0]);
  return all[0];
}
template <class Model, class F, class... Ps>
Result on_one(const F& f, Ps... policies) {
  Trainer trainer{Model(make<Model>()), policies...};
  Result result;
  result.losses = f(trainer, 0);
  result.weights = whole(trainer);
  return result;
}
const AdamW slow{.lr = 1e-3, .weight_decay = 0.1, .groups = {no_decay()}};

/// Samples that are augmented.
struct Samples {
  std::int64_t count;
  std::int64_t size() const { return count; }
  Rows get(std::int64_t i, SampleRng& rng) const {
    return {at::sin(at::arange(5) * double(i + 1)) + 0.1 * at::randn({5}, rng.generator()),
            at::scalar_tensor(i % 3, at::kLong)};
  }
};
/// Two epochs of a program in which only the numbers of the rank differ.
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
/// Of a row of zeros the loss is infinite, and so would be gradients.
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
  for (const auto& parts : {std::vector<std::vector<std::int64_t>>{{2, 1, 3}, {1, 2}},
                            {{4}, {1, 1, 1}, {1, 1}}}) {
    ranges<Kind::DDP>(parts);
    ranges<Kind::ZeRO2>(parts);
    ranges<Kind::FSDP>(parts);
  }
}

namespace {

/// Draws numbers, and changes buffers.
struct NoisyImpl : torch::nn::Module {
  using units = Units<Inner>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(5, width));
  torch::nn::BatchNorm1d norm = register_module("norm", torch::nn::BatchNorm1d(width));
  Inner inner = register_module("inner", Inner());
  at::Tensor forwards = register_buffer("forwards", at::zeros({}));
  double dropout = 0;
  bool draws = false;
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    forwards.add_(1);
    const at::Tensor x = run(inner, norm(embed(batch.input)));
    if (draws) at::rand({3});
    return {at::dropout(x, dropout, is_training()).square().sum(), batch.input.size(0)};
  }
};
TORCH_MODULE(Noisy);
bridge::GeneratorPosition position() {
  return bridge::GeneratorState(c10::Device(c10::kCPU)).position();
}

/// Rank 1 has `rows` rows in the first microbatch, and none or no second one in another.
template <Kind K>
void leaves_no_trace(bool has_first) {
  CAPTURE(K);
  CAPTURE(has_first);
  std::vector<Noisy> models{make<Noisy>(), make<Noisy>()};
  const auto all = batches(2, 4);
  models[1]->dropout = has_first ? 0 : 0.5, models[1]->draws = !has_first;
  const auto before = position();
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    Trainer trainer{models[static_cast<std::size_t>(wire->rank())], Double<K>{.wire = wire}};
    if (wire->rank() == 0) trainer.step(all);
    else trainer.step(std::vector<Rows>(1, has_first ? all[0] : rows_of(all[0], 0, 0)));
  });
  CHECK((position() == before));
  CHECK(models[1]->norm->num_batches_tracked.item<std::int64_t>() == (has_first ? 1 : 0));
  CHECK(models[1]->forwards.item<double>() == (has_first ? 1 : 0));
  CHECK(models[0]->norm->num_batches_tracked.item<std::int64_t>() == 2);
  if (!has_first) CHECK(same_bits(models[1]->norm->running_mean, at::zeros({width})));
  for (const auto& module : models[1]->modules()) CHECK(module->is_training());
}

}  // namespace

TEST_CASE("uneven: a batch of weight zero leaves buffers, modes and random generators as they are") {
  for (bool has_first : {false, true}) {
    leaves_no_trace<Kind::DDP>(has_first);
    leaves_no_trace<Kind::ZeRO2>(has_first);
    leaves_no_trace<Kind::FSDP>(has_first);
  }
  const auto before = position();  // with a row it does draw
  Noisy noisy = make<Noisy>();
  noisy->draws = true;
  Trainer{noisy}.step(batches(1, 4)[0]);
  CHECK_FALSE((position() == before));
}

namespace {

template <Kind K>
void refuses_all_empty() {
  auto f = [&](auto& trainer, std::int64_t rank) {
    const Rows all = batches(1, 4)[0], none = rows_of(all, 0, 0);
    const auto refused = [&] { trainer.step(none); };
    CHECK(contains(message_of<BadBatch>(refused), "the batches of all ranks have no rows"));
    CHECK(trainer.steps() == 0);
    const auto empty_range = [&] { trainer.step(std::vector<Rows>()); };
    CHECK_FALSE(message_of(empty_range).empty());
    return std::vector{trainer.step(rank == 0 ? all : none).mean()};
  };
  on_ranks<K, Counted>(2, f);
}
/// A parameter of another model takes the place of all of this one's.
struct OtherImpl : NetImpl {
  at::Tensor other;
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    if (other.defined()) return {other * batch.input.sum(), batch.input.size(0)};
    return NetImpl::loss(run, batch);
  }
};
TORCH_MODULE(Other);

}  // namespace

TEST_CASE("uneven: where no rank has a row, or one rank is all, the step is refused") {
  refuses_all_empty<Kind::DDP>();
  refuses_all_empty<Kind::FSDP>();
  on_threads(1, [&](std::shared_ptr<Wire> wire) {
    Counted model = make<Counted>();
    Trainer trainer{model, Double<Kind::FSDP>{.wire = wire}};
    const auto refused = [&] { trainer.step(rows_of(batches(1, 4)[0], 0, 0)); };
    CHECK(contains(message_of<BadBatch>(refused), "batch: it is empty"));
    CHECK_FALSE(trainer.join_step(batches(1, 4)[0]));
  });
}

TEST_CASE("uneven: a rank whose loss gives no gradient takes those of the others") {
  const Rows all = batches(1, 4)[0];
  std::vector<Other> models{make<Other>(), make<Other>()};
  on_threads(2, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    Trainer trainer{models[r], slow, Double<Kind::DDP>{.wire = wire}};
    if (r == 0) models[0]->other = at::ones({}).requires_grad_();
    trainer.step(all);
    models[r]->other = at::ones({}).requires_grad_();
    CHECK(contains(message_of<BadModel>([&] { trainer.step(all); }), "got a gradient from it"));
    CHECK_FALSE(models[r]->other.grad().defined());
  });
  CHECK(same_bits(models[0]->parameters(), models[1]->parameters()));
  CHECK_FALSE(same_bits(models[0]->parameters(), make<Other>()->parameters()));
}

TEST_CASE("uneven: a step with an empty rank makes as many exchanges as another") {
  auto f = [&](auto& trainer, std::int64_t rank) {
    const Rows all = batches(1, 4)[0];
    auto& wire = *trainer.template mechanism<Double<Kind::FSDP>>().values.wire;
    auto exchanges = [&](const Rows& batch) {
      const auto before = wire.exchanges;
      trainer.step(batch);
      return wire.exchanges - before;
    };
    exchanges(all);
    CHECK(exchanges(all) == exchanges(rows_of(all, 0, rank == 0 ? 2 : 0)));
    return std::vector{at::zeros({})};
  };
  on_ranks<Kind::FSDP, Counted>(2, f);
}

}  // namespace test::ranks
