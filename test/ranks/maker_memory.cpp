// Tests how much of a maker's model a rank holds: at most two units besides its slices, so that a
// model that exceeds the limit of one process trains on four.
#include "test.hpp"

#include <fstream>

#include "processes.hpp"

using namespace ikebana;

namespace test::ranks::maker_memory {

inline constexpr std::int64_t layer_width = 512, layer_count = 12;
inline constexpr std::int64_t unit_bytes = layer_width * layer_width * 4,
                              all_bytes = layer_count * unit_bytes;
inline constexpr std::int64_t small_bytes = 256 << 10;  // head, biases, what ranks tell each other

struct LayerImpl : torch::nn::Module {
  torch::nn::Linear linear =
      register_module("linear", torch::nn::Linear(torch::nn::LinearOptions(512, 512).bias(false)));
  LayerImpl() {
    const at::NoGradGuard no_grad;
    linear->weight.copy_(at::randn({layer_width, layer_width}) * 0.05);  // two temporary tensors
  }
  at::Tensor forward(const at::Tensor& x) { return x + at::tanh(linear(x)); }
};
TORCH_MODULE(Layer);
struct DeepImpl : torch::nn::Module {
  using units = Units<Layer>;
  std::vector<Layer> layers;
  torch::nn::Linear head{nullptr};
  DeepImpl() {
    for (std::int64_t i = 0; i < layer_count; ++i)
      layers.push_back(register_module("layer" + std::to_string(i), Layer()));
    head = register_module("head", torch::nn::Linear(layer_width, 3));
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    at::Tensor x = batch.input;
    for (Layer& layer : layers) x = run(layer, x);
    return {.sum = at::cross_entropy_loss(head(x), batch.target, {}, at::Reduction::Sum),
            .count = batch.target.numel()};
  }
  Count count(const Rows& batch) const { return batch.target.numel(); }
};
TORCH_MODULE(Deep);
using Recipe = Trainer<Deep, AdamW, Accumulate<>, Shard<FSDP>>;

std::mutex one_at_a_time;  // ranks that are threads share a generator
Deep seeded() {
  std::lock_guard lock(one_at_a_time);
  torch::manual_seed(1);
  return Deep();
}
std::vector<at::Tensor> losses(Recipe& trainer, std::int64_t rank, std::int64_t ranks) {
  torch::manual_seed(2);
  std::vector<at::Tensor> all;
  for (int i = 0; i < 2; ++i) {
    const Rows batch{at::randn({8, layer_width}), at::randint(3, {8}, at::kLong)};
    all.push_back(trainer.step(part(batch, rank, ranks)).mean());
  }
  return all;
}

/// Returns the most bytes that were in use while trainers of so many ranks were made, beyond the
/// bytes before.
template <class Given>
std::int64_t peak_while_made(std::int64_t ranks, const Given& given) {
  bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  on_groups(ranks, [&](const ProcessGroup& group) {
    Recipe trainer(given(), AdamW{}, Accumulate<>{.microbatches = 1},
                   Shard<FSDP>{.process_group = group});
  });
  CHECK(counter.now() == before);
  return counter.peak() - before;
}
TEST_CASE("ranks: while a maker's model is made, a rank holds its slices and at most two units") {
  auto maker = [] { return seeded; };
  for (std::int64_t ranks : {1, 2, 4}) {
    CAPTURE(ranks);
    const std::int64_t peak = peak_while_made(ranks, maker);
    CHECK(peak >= all_bytes + unit_bytes);
    // The peak has the slices of all units but the last one, and two units on each rank.
    CHECK(peak <= all_bytes - unit_bytes + ranks * (2 * unit_bytes + small_bytes));
  }
  CHECK(peak_while_made(1, seeded) >= 2 * all_bytes);  // a model that is given is held whole
  bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  std::int64_t in_maker = 0;
  Recipe trainer(
      [&] {
        const Deep model = seeded();
        in_maker = counter.peak() - before;
        return model;
      },
      Accumulate<>{.microbatches = 1});
  CHECK(in_maker >= unit_bytes);  // its random numbers are drawn
  CHECK(in_maker <= unit_bytes + small_bytes);
}

inline constexpr std::int64_t limit = 30 << 20;  // parameters, gradients and moments are 48 MiB

TEST_CASE("ranks: one of several processes with a limit" * doctest::skip()) {
  const MemoryLimit hold(limit);
  const processes::Role role = processes::Role::of_environment(std::chrono::minutes(1));
  const std::int64_t ranks = role.group.size();
  Recipe trainer(seeded, Accumulate<>{.microbatches = 4 / ranks},
                 Shard<FSDP>{.process_group = role.group});
  if (ranks == 1) {
    role.file() << message_of<OutOfMemory>([&] { losses(trainer, 0, 1); });
    return;
  }
  std::ofstream file = role.file();
  for (const at::Tensor& loss : losses(trainer, role.group.rank(), ranks))
    file << std::hexfloat << loss.item<double>() << ' ';
}
std::vector<std::string> run_limited(std::int64_t ranks) {
  processes::Processes all("limited", ranks, "ranks: one of several processes with a limit");
  std::vector<std::string> written;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    CHECK(all.ended(rank) == 0);
    written.push_back(all.written(rank));
  }
  return written;
}
TEST_CASE(
    "ranks: a model beyond the limit of a process trains on four, and on one it is an error") {
  Recipe trainer(seeded, Accumulate<>{.microbatches = 4});
  std::ostringstream expected;
  for (const at::Tensor& loss : losses(trainer, 0, 1))
    expected << std::hexfloat << loss.item<double>() << ' ';
  for (const std::string& written : run_limited(4)) CHECK(written == expected.str());
  const std::string text = run_limited(1)[0];
  CHECK_MESSAGE(contains(text, std::to_string(unit_bytes) + " bytes were requested"), text);
  CHECK_MESSAGE(contains(text, "the limit of this process is " + std::to_string(limit)), text);
}
TEST_CASE("ranks: a limit below a rank's slices is an error when the trainer is made") {
  bridge::MemoryCounter counter(at::kCPU);
  const std::int64_t before = counter.now();
  const MemoryLimit hold(before + 5 * unit_bytes);
  const std::string text =
      message_of<OutOfMemory>([&] { Recipe(seeded, Accumulate<>{.microbatches = 1}); });
  CHECK_MESSAGE(contains(text, std::to_string(unit_bytes) + " bytes were requested, "), text);
  CHECK_MESSAGE(contains(text, "is " + std::to_string(before + 5 * unit_bytes)), text);
  CHECK(counter.now() == before);
  {
    const MemoryLimit none(0);
    CHECK(message_of<OutOfMemory>([] { at::ones({1}); }) != "");
  }
  at::ones({1});  // the outer limit holds again
  CHECK(contains(message_of<BadValue>([] { MemoryLimit(-1); }), "it is -1 bytes"));
}

/// Trains with a recipe whose other policies look at parameters when the trainer is made.
template <class Given>
std::vector<std::vector<at::Tensor>> trained_with_all(const Given& given) {
  std::vector<std::vector<at::Tensor>> all(2);
  const auto rows = batches(3, 4);
  on_groups(2, [&](const ProcessGroup& group) {
    const auto r = static_cast<std::size_t>(group.rank());
    Trainer trainer{given(r),
                    AdamW{.lr = 1e-2, .groups = {no_decay()}},
                    Precision<BF16Weights>{},
                    EMA{},
                    Freeze<>{.match = named("*.still.weight")},
                    Checkpoint<Full>{},
                    ClipGradNorm{},
                    Observe<Memory>{},
                    Shard<FSDP>{.process_group = group}};
    for (const Rows& batch : rows) trainer.step(part(batch, group.rank(), 2));
    all[r] = whole(trainer);
    trainer.with_full_weights(
        [&](auto& model) {
          for (const at::Tensor& t : copies(model)) all[r].push_back(t);
        },
        {.averaged = true});
  });
  return all;
}
TEST_CASE("ranks: with all other policies a maker's model trains as one that is given") {
  const std::vector<Counted> models{make<Counted>(), make<Counted>()};
  const auto expected = trained_with_all([&](std::size_t r) { return models[r]; });
  const auto got = trained_with_all([&](std::size_t r) {
    return [r] {  // all ranks take rank 0's weights
      std::lock_guard lock(one_at_a_time);
      torch::manual_seed(static_cast<std::uint64_t>(r + 1));
      return Counted();
    };
  });
  CHECK(!expected[0].empty());
  for (const auto& weights : got) CHECK(same_bits(weights, expected[0]));
}

}  // namespace test::ranks::maker_memory
