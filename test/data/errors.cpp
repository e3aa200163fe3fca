// Errors of datasets and options name their place, and the loader stays usable.
#include "sets.hpp"

using namespace ikebana;

namespace test::data::errors {

/// Throws for one sample, a given number of times.
struct Failing : All {
  std::shared_ptr<std::atomic<int>> left = std::make_shared<std::atomic<int>>(1);
  std::function<void()> fail;
  Failing(int times, std::function<void()> f) : fail(std::move(f)) { *left = times; }
  Pair get(std::int64_t i) const {
    if (i == 9 && (*left)-- > 0) fail();
    return {input[i], target[i]};
  }
};
/// A type of this file alone, whose names of fields g++ spells, and clang, which compiles others,
/// before version 18 does not.
struct Named {
  at::Tensor input, target;
};
struct Ragged : All {
  Named get(std::int64_t i) const {
    if (i == 6) return {at::ones({3}), target[i]};
    if (i == 10) return {input[i], at::ones({})};
    if (i == 13) return {{}, target[i]};
    return {input[i], target[i]};
  }
};
struct Unsized : Torch {
  std::optional<std::size_t> size() const override { return {}; }
};
/// `get` is not const, and the dataset cannot be copied.
struct NotCopyable : All {
  NotCopyable() = default;
  NotCopyable(NotCopyable&&) = default;
  Pair get(std::int64_t i) { return {input[i], target[i]}; }
};

template <class F>
void for_every_worker(F f) {
  for (std::int64_t workers : {0, 1, 3}) {
    CAPTURE(workers);
    f(DataLoaderOptions{.batch_size = 4, .num_workers = workers});
  }
}
template <class E, class Loader>
std::string thrown_by(Loader& loader, BatchPosition where) {
  std::string message = message_of<E>([&] { epoch(loader); });
  CHECK(loader.position() == where);
  return message;
}

TEST_CASE(
    "errors: what get throws is thrown in the loop at its batch, with its place and message") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader intact(Structs(), options);
    Batches expected = next(intact, 6);
    DataLoader loader(Failing(2, [] { throw std::domain_error("no such file"); }), options);
    CHECK(same(next(loader, 2), {expected[0], expected[1]}));
    std::string message = thrown_by<BadSample>(loader, {0, 2});
    for (auto part : {"get(9)", "epoch 0, batch 2", "no such file", "seek({0, 3})"})
      CHECK(contains(message, part));
    CHECK(contains(thrown_by<BadSample>(loader, {0, 2}), "get(9)"));       // a second time
    CHECK(same(next(loader, 4), {expected.begin() + 2, expected.end()}));  // and no third
  });
}

TEST_CASE("errors: a batch that cannot be read can be skipped") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader intact(Structs(), options);
    DataLoader loader(Failing(1000, [] { throw 5; }), options);
    Batches expected = epoch(intact);
    CHECK(contains(thrown_by<BadSample>(loader, {0, 2}), "something that is no std::exception"));
    loader.seek({0, 3});
    CHECK(same(epoch(loader), {expected.begin() + 3, expected.end()}));
    CHECK(contains(thrown_by<BadSample>(loader, {1, 2}), "epoch 1, batch 2"));
  });
}

TEST_CASE("errors: what was thrown is nested, and LibTorch's message is without its backtrace") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader loader(Failing(2, [] { at::ones({2}) + at::ones({3}); }), options);
    std::string message = thrown_by<BadSample>(loader, {0, 2});
    CHECK(contains(message, "must match the size"));
    CHECK_FALSE(contains(message, "frame #"));
    try {
      epoch(loader);
    } catch (const BadSample& error) {
      CHECK_THROWS_AS(std::rethrow_if_nested(error), c10::Error);
    }
  });
}

TEST_CASE("errors: samples that differ are named, with field, shapes and indices") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader loader(Ragged(), options);
    auto message = thrown_by<BadBatch>(loader, {0, 1});
    CHECK(contains(message,
                   "`input` is Float[2] on cpu in sample 4, and Float[3] on cpu in sample 6"));
    loader.seek({0, 2});
    message = thrown_by<BadBatch>(loader, {0, 2});
    CHECK(contains(message,
                   "`target` is Long[] on cpu in sample 8, and Float[] on cpu in sample 10"));
    loader.seek({0, 3});
    message = thrown_by<BadBatch>(loader, {0, 3});
    CHECK(contains(message, "`input` is Float[2] on cpu in sample 12, and undefined in sample 13"));
    loader.seek({0, 4});
    CHECK(epoch(loader).size() == 2);
  });
}

TEST_CASE("errors: a failing get_batch and a failing collate function name their samples") {
  struct Broken : All {
    Pair get_batch(const at::Tensor&) const { throw std::runtime_error("no such file"); }
  };
  for_every_worker([](DataLoaderOptions options) {
    DataLoader gathered(Broken(), options);
    CHECK(contains(thrown_by<BadSample>(gathered, {0, 0}),
                   "get_batch(0, 1, 2, 3) (epoch 0, batch 0)"));
    auto collate = [](const std::vector<Pair>&) -> Pair {
      throw std::runtime_error("no such file");
    };
    DataLoader collated(Structs(), options, collate);
    CHECK(contains(thrown_by<BadSample>(collated, {0, 0}), "the samples 0, 1, 2, 3 (epoch"));
  });
}

TEST_CASE("errors: options out of range and unsuitable datasets") {
  auto refused = [](auto dataset, DataLoaderOptions options) {
    return message_of<BadValue>([&] { DataLoader loader(std::move(dataset), options); });
  };
  CHECK(contains(refused(Structs(), {.batch_size = 0}), "batch_size is 0; it must be 1 or more"));
  CHECK(
      contains(refused(Structs(), {.num_workers = -1}), "num_workers is -1; it must be 0 or more"));
  CHECK(contains(refused(Structs(), {.prefetch_factor = 0}), "prefetch_factor is 0"));
  CHECK(contains(refused(Structs(), {.num_workers = 1, .timeout = -1}), "timeout is -1; it must"));
  CHECK(
      contains(refused(Structs(), {.num_workers = 1, .timeout = std::nan("")}), "timeout is nan"));
  CHECK(contains(refused(Structs(), {.num_workers = 1, .timeout = 1e10}), "timeout is 1e+10"));
  CHECK(contains(refused(Structs(), {.timeout = 5}), "timeout is set and num_workers is 0"));
  CHECK(contains(refused(Structs(), {.persistent_workers = true}), "no workers to keep"));
  CHECK(contains(refused(Structs(0), {}), "has 0 samples"));
  CHECK(contains(refused(Structs(3), {.batch_size = 4, .drop_last = true}),
                 "3 samples make no batch of 4, and drop_last"));
  CHECK(contains(refused(Unsized(), {}), "size() of the dataset is empty"));
  CHECK(contains(refused(NotCopyable(), {.num_workers = 2}), "cannot be copied"));
  CHECK(refused(NotCopyable(), {.num_workers = 1}) == "");
  DataLoader one(NotCopyable(), {.batch_size = 4, .num_workers = 1});
  DataLoader plain(Structs(), {.batch_size = 4});
  CHECK(same(epoch(one), epoch(plain)));
  CHECK_THROWS_AS(TensorDataset(at::ones({3}), at::ones({4})), BadBatch);
  CHECK(contains(refused(std::shared_ptr<Structs>(), {}), "the pointer to its dataset is null"));
  SampleRng rng(1);
  CHECK(contains(message_of<BadValue>([&] { rng.randint(0); }), "randint(0) has nothing"));
  CHECK(rng.randint(1) == 0);
}

}  // namespace test::data::errors
