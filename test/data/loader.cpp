// Tests the guarantees of a loader, for every kind of dataset, shuffled or not, with and without a
// shorter last batch, and for several numbers of workers.
#include <ikebana/data/permutation.hpp>
#include "sets.hpp"

using namespace ikebana;

namespace test::data {

namespace {

/// Calls `check(options)` for every combination of options that affects the order.
template <class Check>
void for_every_order(Check check) {
  for (bool shuffle : {false, true})
    for (bool drop_last : {false, true})
      for (std::int64_t batch_size : {1, 4, 23, 30}) {
        if (drop_last && batch_size > 23) continue;
        CAPTURE(shuffle);
        CAPTURE(drop_last);
        CAPTURE(batch_size);
        check(DataLoaderOptions{
            .batch_size = batch_size, .shuffle = shuffle, .drop_last = drop_last, .seed = 5});
      }
}
/// Calls `check(dataset)` for every kind of dataset.
template <class Check>
void for_every_dataset(Check check) {
  check("structs", Structs()), check("numbers", Numbers()), check("gathered", Gathered());
  check("LibTorch's", Torch()), check("LibTorch's, mapped", mapped(23)),
      check("tensors", tensors(23));
  check("noisy", Noisy()), check("noisy batches", NoisyBatch());
}

/// Returns the expected batches of an epoch.
Batches by_hand(const DataLoaderOptions& o, std::int64_t epoch, std::int64_t n = 23) {
  Permutation order(n, ikebana::detail::key(o.seed, epoch, ikebana::detail::RngStream::Order));
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < n; ++i) indices.push_back(o.shuffle ? order[i] : i);
  All all;
  Batches batches;
  for (std::int64_t begin = 0; begin < n; begin += o.batch_size) {
    std::int64_t count = std::min(o.batch_size, n - begin);
    if (o.drop_last && count < o.batch_size) break;
    auto rows = at::tensor(indices).narrow(0, begin, count);
    batches.push_back({all.input.index_select(0, rows), all.target.index_select(0, rows)});
  }
  return batches;
}

}  // namespace

TEST_CASE("loader: for every kind of dataset, batches are its rows in the epoch's order") {
  for_every_order([](DataLoaderOptions options) {
    for_every_dataset([&](const char* name, auto dataset) {
      if (std::string_view(name).starts_with("noisy")) return;
      CAPTURE(name);
      DataLoader loader(dataset, options);
      for (std::int64_t e = 0; e < 3; ++e) {
        CHECK(loader.epoch() == e);
        CHECK(std::size(loader) == std::int64_t(by_hand(options, e).size()));
        CHECK(same(epoch(loader), by_hand(options, e)));
      }
    });
  });
}

TEST_CASE("loader: the number of workers and what they prefetch change no bit") {
  for_every_order([](DataLoaderOptions options) {
    for_every_dataset([&](const char* name, auto dataset) {
      CAPTURE(name);
      DataLoader alone(dataset, options);
      Batches expected = next(alone, 2 * std::size_t(alone.size()) + 1);
      for (std::int64_t workers : {1, 3})
        for (std::int64_t prefetch : {1, 4}) {
          options.num_workers = workers, options.prefetch_factor = prefetch;
          DataLoader loader(dataset, options);
          CHECK(same(next(loader, expected.size()), expected));
        }
    });
  });
}

TEST_CASE("loader: resumed twice within an epoch, with other workers, it gives the same bits") {
  for_every_order([](DataLoaderOptions options) {
    for_every_dataset([&](const char* name, auto dataset) {
      CAPTURE(name);
      DataLoader uninterrupted(dataset, options);
      auto size = std::size_t(uninterrupted.size());
      Batches expected = next(uninterrupted, 3 * size);
      for (std::size_t first : {std::size_t(1), size / 2, size, size + 1}) {
        Batches seen;
        StateDict state;
        auto run = [&](std::size_t batches, std::int64_t workers) {
          options.num_workers = workers;
          DataLoader loader(dataset, options);
          if (!state.empty()) load(loader, state);
          for (auto& batch : next(loader, batches)) seen.push_back(batch);
          state = saved(loader);
        };
        run(first, 2), run(1, 0), run(3 * size - first - 1, 3);
        CHECK(same(seen, expected));
      }
    });
  });
}

TEST_CASE("loader: epochs and seeds differ in their order and in their random numbers") {
  auto first = [](auto dataset, std::uint64_t seed, std::int64_t epoch, bool shuffle) {
    DataLoader loader(dataset, {.batch_size = 23, .shuffle = shuffle, .seed = seed});
    loader.seek({epoch, 0});
    return next(loader, 1);
  };
  for (std::int64_t e = 0; e < 5; ++e)
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      bool one = e == 0 && seed == 0;
      CHECK(same(first(Structs(), seed, e, true), first(Structs(), 0, 0, true)) == one);
      CHECK(same(first(Noisy(), seed, e, false), first(Noisy(), 0, 0, false)) == one);
      CHECK(same(first(NoisyBatch(), seed, e, false), first(NoisyBatch(), 0, 0, false)) == one);
      CHECK(same(first(Structs(), seed, e, false), first(Structs(), 0, 0, false)));
    }
}

TEST_CASE("loader: no two samples and no two batches draw the same numbers") {
  struct Noise : All {
    at::Tensor get(std::int64_t, SampleRng& rng) const { return at::randn({1}, rng.generator()); }
  };
  struct Uniform : All {
    double get(std::int64_t, SampleRng& rng) const { return rng.uniform(); }
  };
  struct NoiseBatch : All {
    at::Tensor get_batch(const at::Tensor&, SampleRng& rng) const {
      return at::randn({1}, rng.generator());
    }
  };
  auto different = [](auto dataset, std::int64_t batch_size) {
    DataLoader loader(dataset, {.batch_size = batch_size});
    std::vector<at::Tensor> all;
    for (auto& batch : next(loader, std::size_t(2 * loader.size()))) all.push_back(batch[0]);
    return std::get<0>(at::_unique(at::cat(all).flatten())).numel();
  };
  CHECK(different(Noise(), 4) == 46);
  CHECK(different(Uniform(), 4) == 46);
  CHECK(different(NoiseBatch(), 4) == 12);
}

TEST_CASE("loader: LibTorch's default generator is never used") {
  auto state = [] { return at::detail::getDefaultCPUGenerator().get_state(); };
  auto before = state();
  for_every_dataset([&](const char* name, auto dataset) {
    for (std::int64_t workers : {0, 2}) {
      CAPTURE(name);
      DataLoader loader(dataset, {.batch_size = 4, .shuffle = true, .num_workers = workers});
      epoch(loader);
      CHECK(same_bits(state(), before));
    }
  });
}

TEST_CASE("loader: a sample's random numbers depend on neither batch size nor order") {
  auto rows = [](DataLoaderOptions options) {
    DataLoader loader(Noisy(), options);
    loader.seek({2, 0});
    std::map<std::int64_t, at::Tensor> by_target;
    for (auto& batch : loader)
      for (std::int64_t i = 0; i < batch.input.size(0); ++i)
        by_target[batch.target[i].template item<std::int64_t>()] = batch.input[i];
    std::vector<at::Tensor> sorted;
    for (auto& [target, row] : by_target) sorted.push_back(row);
    return sorted;
  };
  auto expected = rows({.batch_size = 23});
  CHECK(same_bits(rows({.batch_size = 4, .shuffle = true}), expected));
  CHECK(same_bits(rows({.batch_size = 1, .shuffle = true, .num_workers = 2}), expected));
  CHECK_FALSE(same_bits(rows({.batch_size = 23, .seed = 1}), expected));
}

TEST_CASE("loader: a pointer to a dataset refers to it") {
  Structs own;
  auto shared = std::make_shared<Structs>();
  DataLoader by_value(own, {.batch_size = 4});
  DataLoader by_pointer(&own, {.batch_size = 4});
  DataLoader by_shared(shared, {.batch_size = 4, .num_workers = 2});
  CHECK(&by_pointer.dataset() == &own);
  CHECK(&by_value.dataset() != &own);
  CHECK(shared.use_count() == 2);
  auto expected = epoch(by_value);
  CHECK(same(epoch(by_pointer), expected));
  CHECK(same(epoch(by_shared), expected));
}

}  // namespace test::data
