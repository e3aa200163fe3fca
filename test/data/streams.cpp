// Tests the loader of streams.
#include "sets.hpp"

#include <mutex>
#include <ranges>

#include <ikebana.hpp>
#include <ikebana/streams/stream_loader.hpp>

using namespace ikebana;

namespace test::data::streams {

/// A stream of n integers from 100 * epoch on, which can be read once, as a generator.
struct Counter {
  struct Iterator {
    using value_type = std::int64_t;
    using difference_type = std::ptrdiff_t;
    Counter* counter;
    std::int64_t operator*() const { return counter->first + counter->at; }
    Iterator& operator++() { return ++counter->at, *this; }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return counter->at == counter->n; }
  };
  std::int64_t first, n, at = 0;
  Iterator begin() { return {this}; }
  std::default_sentinel_t end() { return {}; }
};
const auto counters = [](std::int64_t epoch) { return Counter{100 * epoch, 23}; };
const auto with_noise = [](std::int64_t item, SampleRng& rng) {
  return at::tensor({double(item), rng.uniform()}, at::kDouble);
};

template <class Loader>
std::vector<at::Tensor> epoch_of(Loader& loader) {
  std::vector<at::Tensor> batches;
  for (auto& batch : loader) batches.push_back(batch);
  return batches;
}

TEST_CASE("streams: batches are the stream's items, with any workers, and resume exactly") {
  for (const std::int64_t buffer : {0, 1, 7, 100}) {
    CAPTURE(buffer);
    StreamOptions options{.batch_size = 4, .shuffle_buffer = buffer, .seed = 3};
    StreamLoader whole{counters, options, with_noise};
    std::vector<std::vector<at::Tensor>> epochs;
    for (int e = 0; e < 3; ++e) epochs.push_back(epoch_of(whole));
    CHECK(whole.position() == BatchPosition{3, 0});
    for (std::size_t e = 0; e < 3; ++e) {
      CHECK(epochs[e].size() == 6);
      at::Tensor items = at::cat(epochs[e]).select(1, 0);
      const at::Tensor expected = at::arange(23, at::kDouble) + 100. * double(e);
      CHECK(same_bits(items, expected) == (buffer < 2));
      CHECK(same_bits(std::get<0>(items.sort()), expected));
    }
    for (const std::int64_t workers : {0, 1, 3}) {
      CAPTURE(workers);
      options.num_workers = workers;
      StreamLoader loader{counters, options, with_noise};
      for (const std::int64_t begin : {2, 0, 5, 6, 9}) {
        loader.seek({1, begin});
        const auto rest = epoch_of(loader);
        CHECK(same_bits(rest,
                        {epochs[1].begin() + std::min<std::ptrdiff_t>(6, begin), epochs[1].end()}));
        CHECK(loader.position() == BatchPosition{2, 0});
      }
      CHECK(same_bits(epoch_of(loader), epochs[2]));
      loader.seek({0, 0});
      for (int i = 0; i < 3; ++i)  // loops that are left, and a visit in between
        for (auto& batch : loader) {
          CHECK(same_bits(batch, epochs[0][std::size_t(i)]));
          std::vector<at::Tensor> visited;
          loader.visit([&](const at::Tensor& each) { visited.push_back(each); });
          CHECK(same_bits(visited, epochs[0]));
          break;
        }
    }
  }
}

TEST_CASE("streams: ranks have their parts of each batch, and a last one may have none") {
  StreamLoader whole{counters, {.batch_size = 5, .shuffle_buffer = 8}};
  const auto all = epoch_of(whole);
  CHECK(all.size() == 5);  // the last has three items, for four ranks
  std::vector<std::vector<at::Tensor>> parts(all.size());
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    StreamLoader loader{counters,
                        {.batch_size = 5, .shuffle_buffer = 8, .num_replicas = 4, .rank = rank}};
    const auto mine = epoch_of(loader);
    REQUIRE(mine.size() == all.size());
    for (std::size_t b = 0; b < mine.size(); ++b) parts[b].push_back(mine[b]);
  }
  for (std::size_t b = 0; b < all.size(); ++b) CHECK(same_bits(at::cat(parts[b]), all[b]));
  CHECK(parts[4][0].size(0) == 0);
}

TEST_CASE("streams: options, sources that throw, and items that are left out") {
  StreamLoader dropped{counters, {.batch_size = 5, .drop_last = true}};
  CHECK(epoch_of(dropped).size() == 4);
  const auto odd = [](std::int64_t item) { return item % 2 ? std::optional(item) : std::nullopt; };
  StreamLoader some{
      [] { return std::views::iota(std::int64_t{0}, std::int64_t{10}); }, {.batch_size = 4}, odd};
  CHECK(same_bits(at::cat(epoch_of(some)), at::tensor({1, 3, 5, 7, 9}, at::kLong)));
  for (const std::int64_t workers : {0, 1, 3}) {
    CAPTURE(workers);
    bool fails = true;
    const auto breaks = [&fails] {
      return std::views::iota(std::int64_t{0}, std::int64_t{20}) |
             std::views::transform([&fails](std::int64_t i) {
               if (i == 13 && fails) throw std::runtime_error("the line was cut");
               return i;
             });
    };
    StreamLoader loader{breaks, {.batch_size = 4, .num_workers = workers}};
    std::int64_t batches = 0;
    const std::string message = message_of<BadSample>([&] {
      for ([[maybe_unused]] auto& batch : loader) ++batches;
    });
    CHECK(batches == 3);
    CHECK(contains(message, "the stream (epoch 0, batch 3) threw: the line was cut"));
    fails = false;
    CHECK(same_bits(at::cat(epoch_of(loader)), at::arange(12, 20, at::kLong)));
  }
  const auto message = [](const StreamOptions& options) {
    return message_of<BadValue>([&] { StreamLoader{counters, options}; });
  };
  CHECK(contains(message({.batch_size = 0}), "batch_size is 0"));
  CHECK(contains(message({.num_workers = -1}), "num_workers is -1"));
  CHECK(contains(message({.num_replicas = 2, .rank = 2}), "rank is 2 of num_replicas 2"));
  StreamLoader loader{counters};
  CHECK(contains(message_of<BadValue>([&] { loader.seek({0, -1}); }), "there is no epoch 0"));
}

struct LineImpl : torch::nn::Module {
  torch::nn::Linear layer = register_module("layer", torch::nn::Linear(1, 1));
  at::Tensor forward(const at::Tensor& x) { return layer(x); }
};
TORCH_MODULE(Line);

TEST_CASE("streams: fit trains and validates on them, and a saved state has the position") {
  const auto pair = [](std::int64_t item) {
    const at::Tensor x = at::full({1}, double(item) / 10, at::kFloat);
    return std::pair(x, 2 * x);
  };
  const auto source = [] { return std::views::iota(std::int64_t{0}, std::int64_t{10}); };
  StreamLoader train{source, {.batch_size = 3, .shuffle_buffer = 5}, pair};
  StreamLoader validation{source, {.batch_size = 4}, pair};
  torch::manual_seed(1);
  Trainer trainer(Line(), MSELoss{}, SGD{.lr = 0.1});
  trainer.fit(train, {.epochs = 3, .validate = validation});
  CHECK(trainer.steps() == 12);
  CHECK(train.position() == BatchPosition{3, 0});
  for (auto& batch : train) {
    trainer.step(batch);
    if (train.position().batch == 2) break;
  }
  const auto saved = trainer.state(train);
  StreamLoader again{source, {.batch_size = 3, .shuffle_buffer = 5}, pair};
  Trainer other(Line(), MSELoss{}, SGD{.lr = 0.1});
  other.restore(saved, again);
  CHECK(again.position() == BatchPosition{3, 2});
  StreamLoader different{source, {.batch_size = 3, .shuffle_buffer = 6}, pair};
  CHECK(contains(message_of<BadState>([&] { other.restore(saved, different); }), "shuffle_buffer"));
}

}  // namespace test::data::streams
