// Evaluations of weights that are cut among ranks, with their average and without: they have the
// bits of one rank, and gather one unit after the other.
#include "test.hpp"

#include <ikebana/bridge/memory_counter.hpp>
#include <numeric>

#include "counting_group.hpp"

using namespace ikebana;

namespace test::ranks::averaged {

constexpr std::int64_t wide = 240;  // cuts are at multiples of eight elements, as AdamW's bits need

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(wide, wide));
  std::function<void()> during_forward = {};
  at::Tensor forward(const at::Tensor& x) {
    if (during_forward) during_forward();
    return x + at::tanh(layer(x));
  }
};
TORCH_MODULE(Block);
struct ChainImpl : torch::nn::Module {
  using units = Units<Block>;
  torch::nn::Linear head = register_module("head", torch::nn::Linear(wide, 48));
  std::vector<Block> blocks;
  ChainImpl() {
    for (int i = 0; i < 6; ++i) blocks.push_back(register_module(std::to_string(i), Block()));
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = batch.input;
    for (Block& block : blocks) x = run(block, x);
    return {at::mse_loss(head(x), batch.target, at::Reduction::Sum), batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Chain);
constexpr std::int64_t block_bytes = 4 * (wide * wide + wide), root_bytes = 4 * (wide * 48 + 48);

std::vector<Rows> wide_batches(std::int64_t rows) {
  torch::manual_seed(12);
  std::vector<Rows> all;
  for (int i = 0; i < 3; ++i) all.push_back({at::randn({rows, wide}), at::rand({rows, 48})});
  return all;
}

/// The results of evaluations after each step, and the final weights.
struct Said {
  std::vector<double> losses;
  std::vector<at::Tensor> weights;
};
/// `evaluated` has the batches of this rank; if there is one rank, it has all.
template <class T>
Said trained(T& trainer, const std::vector<Rows>& steps, const std::vector<Rows>& evaluated) {
  Said said;
  for (const Rows& batch : steps) {
    trainer.step(batch);
    said.losses.push_back(trainer.evaluate(evaluated).loss);
  }
  said.weights = whole(trainer);
  return said;
}
template <class... Ps>
Said alone(std::int64_t ranks, Ps... policies) {
  const auto all = wide_batches(2 * ranks);
  std::vector<Rows> parts;
  for (std::int64_t r = 0; r < ranks; ++r) parts.push_back(part(all[0], r, ranks));
  Trainer trainer{make<Chain>(), AdamW{.lr = 1e-2}, Accumulate<>{.microbatches = ranks},
                  policies...};
  return trained(trainer, all, parts);
}
template <class How, class... Ps>
void equal(const Said& expected, std::int64_t ranks, Ps... policies) {
  CAPTURE(ranks);
  CAPTURE(ikebana::detail::type_name<Shard<How>>());
  const auto all = wide_batches(2 * ranks);
  std::vector<Chain> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Chain>());
  on_groups(ranks, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    std::vector<Rows> mine;
    for (const Rows& batch : all) mine.push_back(part(batch, group.rank(), ranks));
    Trainer trainer{models[r], AdamW{.lr = 1e-2}, policies..., Shard<How>{.process_group = group}};
    const Said said = trained(trainer, mine, {mine[0]});
    CHECK(said.losses == expected.losses);
    CHECK(same_bits(said.weights, expected.weights));
  });
}
TEST_CASE("averaged: an evaluation over slices has the bits of one rank's, with EMA and without") {
  for (std::int64_t ranks : {1, 2, 3}) {
    const Said plain = alone(ranks), averages = alone(ranks, EMA{.decay = 0.5});
    CHECK(same_bits(plain.weights, averages.weights));
    CHECK(plain.losses[0] == averages.losses[0]);  // the loss after one update, which is its own
                                                   // average
    CHECK(plain.losses[2] != averages.losses[2]);
    equal<DDP>(averages, ranks, EMA{.decay = 0.5});
    equal<ZeRO1>(averages, ranks, EMA{.decay = 0.5});
    equal<ZeRO2>(averages, ranks, EMA{.decay = 0.5});
    equal<FSDP>(averages, ranks, EMA{.decay = 0.5});
    equal<ZeRO2>(plain, ranks);
    equal<FSDP>(plain, ranks);
    if (ranks == 1) continue;
    equal<FSDP>(alone(ranks, EMA{.decay = 0.5}, Precision<BF16Weights>{}), ranks, EMA{.decay = 0.5},
                Precision<BF16Weights>{});
  }
}

/// Bytes that all ranks hold at a call that each makes. None goes on before they are known.
class Bytes {
 public:
  explicit Bytes(std::int64_t ranks) : ranks_(ranks) {}
  std::int64_t now() {
    const std::int64_t calls = store_->add("calls", 1);
    const std::string key = "bytes" + std::to_string((calls - 1) / ranks_);
    if (calls % ranks_ == 0) store_->set(key, std::to_string(counter_.now()));
    const auto text = store_->get(key);
    return std::stoll(std::string(text.begin(), text.end()));
  }

 private:
  std::int64_t ranks_;
  c10::intrusive_ptr<c10d::Store> store_ = c10::make_intrusive<c10d::HashStore>();
  bridge::MemoryCounter counter_{at::kCPU};
};
/// Units that a rank holds at most in its forwards, besides the root and what it holds
/// between steps.
struct Most {
  double in_evaluation = 0, in_averaged = 0;
};
template <class How, class... Ps>
Most most_held(std::int64_t ranks, Shard<How> policy, Ps... policies) {
  const auto all = wide_batches(ranks);
  std::vector<Chain> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Chain>());
  auto bytes = std::make_shared<Bytes>(ranks);
  std::vector<Most> most(models.size());
  on_groups(ranks, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    const std::vector<Rows> mine{part(all[0], group.rank(), ranks)};
    Shard<How> own = policy;
    own.process_group = group;
    Trainer trainer{models[r], AdamW{.lr = 1e-2}, policies..., own};
    for (int i = 0; i < 2; ++i) trainer.step(mine[0]), trainer.evaluate(mine);
    const std::int64_t rest = bytes->now();
    auto units = [&] {
      const auto more = static_cast<double>(bytes->now() - rest) / static_cast<double>(ranks);
      return (more - root_bytes) / block_bytes;
    };
    auto note = [&] { most[r].in_evaluation = std::max(most[r].in_evaluation, units()); };
    for (Block& block : models[r]->blocks) block->during_forward = note;
    trainer.evaluate(mine);
    trainer.with_full_weights([&](auto&) { most[r].in_averaged = units(); }, {.averaged = true});
    for (Block& block : models[r]->blocks) block->during_forward = {};
  });
  CHECK(most[0].in_evaluation == most.back().in_evaluation);
  return most[0];
}
TEST_CASE(
    "averaged: an evaluation gathers the root and two units at a time, with EMA and without") {
  // Small parameters are sent from copies, which may be there still.
  auto check = [](double held, double units) { CHECK(std::abs(held - units) < 0.2); };
  for (std::int64_t ranks : {2, 3}) {
    CAPTURE(ranks);
    // Weights that are exchanged need memory for the largest slice meanwhile.
    const double slice = 1 / static_cast<double>(ranks);
    const Most plain = most_held<FSDP>(ranks, {}), averages = most_held<FSDP>(ranks, {}, EMA{});
    check(plain.in_evaluation, 2);
    check(averages.in_evaluation, 2 + slice);
    check(most_held<FSDP>(ranks, {.forward_prefetch = false}).in_evaluation, 1);
    check(plain.in_averaged, 6);  // exports all
    check(averages.in_averaged, 6 + slice);
    // Whole parameters are there already, and are gathered in place.
    CHECK(most_held<ZeRO2>(ranks, {}, EMA{}).in_evaluation < slice + 0.2);
  }
}

/// Returns the bytes that an evaluation of one batch sends, over the bytes that one gather of all
/// parameters sends.
template <class... Ps>
double sent(std::int64_t ranks, Ps... policies) {
  const auto all = wide_batches(ranks);
  std::vector<Chain> models;
  for (std::int64_t r = 0; r < ranks; ++r) models.push_back(make<Chain>());
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::int64_t> bytes(models.size());
  on_threads(ranks, [&](std::shared_ptr<Wire> wire) {
    const auto r = static_cast<std::size_t>(wire->rank());
    auto counting = c10::make_intrusive<Counting>(
        ikebana::detail::make_gloo(store, wire->rank(), ranks, std::chrono::minutes(1), true));
    Trainer trainer{models[r], AdamW{}, policies...,
                    Shard<FSDP>{.process_group = ProcessGroup(counting)}};
    const std::vector<Rows> mine{part(all[0], wire->rank(), ranks)};
    trainer.step(mine[0]), trainer.evaluate(mine);
    counting->bytes = 0;
    trainer.evaluate(mine);
    bytes[r] = counting->bytes;
  });
  const auto whole = static_cast<double>((ranks - 1) * (6 * block_bytes + root_bytes));
  return static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})) / whole;
}
TEST_CASE("averaged: an evaluation sends each parameter once, averaged or not") {
  for (std::int64_t ranks : {2, 3}) {
    CHECK(sent(ranks) == doctest::Approx(1).epsilon(0.02));
    CHECK(sent(ranks, EMA{}) == doctest::Approx(1).epsilon(0.02));
  }
}

}  // namespace test::ranks::averaged
