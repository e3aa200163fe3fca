// Tests the position of a loader, and what changes it.
#include "sets.hpp"

#include <ikebana.hpp>

using namespace ikebana;

namespace test::data::position {

const DataLoaderOptions sixes{.batch_size = 4, .shuffle = true, .seed = 3};  // 6 batches an epoch

/// Calls `f(options)` for several numbers of workers, on which positions must not depend.
template <class F>
void for_every_worker(F f) {
  for (std::int64_t workers : {0, 1, 3}) {
    CAPTURE(workers);
    DataLoaderOptions options = sixes;
    options.num_workers = workers;
    f(options);
  }
}

TEST_CASE("position: it counts delivered batches, and an epoch ends with its loop") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader loader(Structs(), options);
    for (std::int64_t e = 0; e < 3; ++e) {
      CHECK(loader.position() == BatchPosition{e, 0});
      std::int64_t delivered = 0;
      for ([[maybe_unused]] auto& batch : loader)
        CHECK(loader.position() == BatchPosition{e, ++delivered});
      CHECK(delivered == 6);
    }
    CHECK(loader.position() == BatchPosition{3, 0});
  });
}

TEST_CASE(
    "position: after a loop that was left, the next one continues, or is empty at an epoch's end") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader whole(Structs(), options), left(Structs(), options);
    Batches expected = epoch(whole), seen;
    for (int loops = 0; loops < 6; ++loops)
      for (auto& batch : left) {
        seen.push_back(flat(batch));
        break;
      }
    CHECK(same(seen, expected));
    CHECK(left.position() == BatchPosition{0, 6});
    CHECK(epoch(left).empty());
    CHECK(left.position() == BatchPosition{1, 0});
    CHECK(same(epoch(left), epoch(whole)));
  });
}

TEST_CASE("position: seek sets any position, also an earlier one, and throws for a wrong one") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader loader(Noisy(), options);
    Batches expected = next(loader, 60);
    for (std::int64_t batch : {59, 0, 31, 30, 31, 32, 6, 6}) {
      loader.seek({batch / 6, batch % 6});
      CHECK(loader.position() == BatchPosition{batch / 6, batch % 6});
      CHECK(same(next(loader, 1), {expected[std::size_t(batch)]}));
    }
    loader.seek({1, 6});
    CHECK(epoch(loader).empty());
    for (BatchPosition wrong : {BatchPosition{-1, 0}, {0, -1}, {0, 7}})
      CHECK(contains(message_of<BadValue>([&] { loader.seek(wrong); }), "each has 6 batches"));
    CHECK(loader.position() == BatchPosition{2, 0});
    loader.seek({std::int64_t{1} << 60, 5});  // seeking far costs nothing
    CHECK(next(loader, 1).size() == 1);
  });
}

TEST_CASE("position: a loop whose loader's position was changed throws, and keeps its batch") {
  for_every_worker([](DataLoaderOptions options) {
    auto after = [&](auto move) {
      DataLoader loader(Structs(), options);
      StateDict state = saved(loader);
      at::Tensor held;
      std::string message = message_of<Error>([&] {
        for (auto& batch : loader) {
          at::Tensor before = batch.input.clone();
          move(loader, state);
          CHECK(same_bits(batch.input, before));
        }
      });
      CHECK(contains(message, "position was changed while this loop ran"));
      CHECK(epoch(loader).size() >= 1);  // usable
    };
    after([](auto& loader, auto&) { loader.seek(loader.position()); });
    after([](auto& loader, auto&) { next(loader, 1); });
    after([](auto& loader, auto&) { epoch(loader); });
    after([](auto& loader, auto& state) { load(loader, state); });
    DataLoader loader(Structs(), options);
    for ([[maybe_unused]] auto& batch : loader) {
      loader.seek({4, 2});
      break;
    }
    CHECK(loader.position() == BatchPosition{4, 2});
  });
}

TEST_CASE("position: a loop that reached its end does not continue into the next epoch") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader loader(Structs(), options);
    auto batch = loader.begin();
    while (batch != loader.end()) ++batch;
    CHECK(contains(message_of<Error>([&] { ++batch; }), "position was changed"));
    CHECK(loader.position() == BatchPosition{1, 0});
  });
}

TEST_CASE("position: moved loaders continue, also within a loop") {
  for_every_worker([](DataLoaderOptions options) {
    DataLoader reference(Structs(), options);
    Batches expected = next(reference, 8), seen;
    DataLoader first(Structs(), options);
    seen = next(first, 2);
    DataLoader second(std::move(first));
    for (auto& batch : next(second, 2)) seen.push_back(batch);
    DataLoader third(Structs(), options);
    next(third, 1);
    third = std::move(second);
    for (auto& batch : third) {
      seen.push_back(flat(batch));
      if (seen.size() == 5) second = std::move(third);
    }
    for (auto& batch : next(second, 2)) seen.push_back(batch);
    CHECK(same(seen, expected));
  });
}

TEST_CASE(
    "position: another dataset, order or batch size is an error that names every difference") {
  DataLoader loader(Structs(), sixes);
  next(loader, 3);
  StateDict state = saved(loader);
  auto refused = [&](auto dataset, DataLoaderOptions options) {
    DataLoader other(dataset, options);
    auto message = message_of<BadState>([&] { load(other, state); });
    CHECK(other.position() == BatchPosition{0, message.empty() ? 3 : 0});
    return message;
  };
  auto with = [](auto set) {
    DataLoaderOptions options = sixes;
    return set(options), options;
  };
  CHECK(refused(Structs(), sixes) == "");
  CHECK(contains(refused(Structs(21), sixes), "`ikebana.parts.loader.size` is 23, here it is 21"));
  CHECK(contains(refused(Structs(), with([](auto& o) { o.batch_size = 5; })), "batch_size` is 4"));
  CHECK(contains(refused(Structs(), with([](auto& o) { o.shuffle = false; })), "shuffle` is 1"));
  CHECK(contains(refused(Structs(), with([](auto& o) { o.drop_last = true; })), "drop_last` is 0"));
  CHECK(contains(refused(Structs(), with([](auto& o) { o.seed = ~0ull; })), "seed` is 3"));
  CHECK(refused(Structs(), with([](auto& o) { o.num_workers = 2, o.prefetch_factor = 9; })) == "");
  for (auto [name, value] : {std::pair("batch", 7), {"batch", -1}, {"epoch", -1}}) {
    state = saved(loader);
    state[std::string("ikebana.parts.loader.") + name] = at::scalar_tensor(value, at::kLong);
    CHECK(contains(refused(Structs(), sixes), "of epochs with 6 batches"));
  }
}

TEST_CASE("position: a visit is the whole epoch, and leaves the position and a loop as they were") {
  for_every_worker([](DataLoaderOptions options) {
    auto visited = [](auto& loader) {
      Batches all;
      loader.visit([&](const auto& batch) { all.push_back(flat(batch)); });
      return all;
    };
    DataLoader loader(Noisy(), options), reference(Noisy(), options);
    Batches expected = next(reference, 12), seen, second(expected.begin() + 6, expected.end());
    expected.resize(6);
    for (std::int64_t peeked : {0, 1, 5, 6}) {
      loader.seek({0, 0}), next(loader, std::size_t(peeked));
      for (int again = 0; again < 2; ++again) {
        CHECK(same(visited(loader), expected));
        CHECK(loader.position() == BatchPosition{0, peeked});
      }
    }
    loader.seek({0, 0});
    for (auto& batch : loader) {  // within a loop, whose batch stays
      const at::Tensor before = batch.input.clone();
      CHECK(same(visited(loader), expected));
      CHECK(same_bits(batch.input, before));
      seen.push_back(flat(batch));
    }
    CHECK(same(seen, expected));
    int calls = 0;
    auto fails_later = [&](const auto&) {
      if (calls == 0) visited(loader);  // nested
      if (++calls == 3) throw std::runtime_error("later");
    };
    next(loader, 2);
    CHECK_THROWS_AS(loader.visit(fails_later), std::runtime_error);
    CHECK(calls == 3);
    CHECK(loader.position() == BatchPosition{1, 2});
    CHECK(same(epoch(loader), Batches(second.begin() + 2, second.end())));
  });
}

TEST_CASE("position: fit and evaluate take a loader, and a trainer's state includes its position") {
  auto make = [](std::int64_t workers) {
    All all;
    DataLoaderOptions options = sixes;
    options.num_workers = workers;
    return DataLoader(TensorDataset(Pair{all.input, all.target % 5}), options);
  };
  auto net = [] {
    torch::manual_seed(1);
    return torch::nn::Linear(2, 5);
  };
  auto model = net(), third_model = net();
  Trainer<torch::nn::Linear, CrossEntropyLoss> whole(model), resumed(net()), third(third_model);
  auto loader = make(0), validation = make(1);
  auto history = whole.fit(loader, {.epochs = 2, .validate = validation});
  CHECK(history[1].steps == 6);
  CHECK(loader.position() == BatchPosition{2, 0});
  CHECK(validation.position() == BatchPosition{0, 0});
  CHECK(history[1].validation->loss == whole.evaluate(validation).loss);

  for ([[maybe_unused]] auto& batch : validation) break;  // a peek
  CHECK(history[1].validation->loss == whole.evaluate(validation).loss);
  CHECK(history[1].validation->loss == whole.evaluate(&validation).loss);
  CHECK(validation.position() == BatchPosition{0, 1});

  auto half = make(2), rest = make(1);
  resumed.fit(half, {.stop = [&] { return resumed.steps() == 4; }});
  CHECK(half.position() == BatchPosition{0, 4});
  third.restore(resumed.state(half), rest);
  third.fit(rest, {.epochs = 2});
  CHECK(third.steps() == 12);
  CHECK(same_bits(third_model->weight, model->weight));

  auto ended = make(0);  // left at the end of an epoch: fit begins the next
  ended.seek({0, ended.size()});
  CHECK(third.fit(ended).back().steps == 6);
  CHECK(ended.position() == BatchPosition{2, 0});
}

}  // namespace test::data::position
