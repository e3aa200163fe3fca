// Tests a loader whose batches are divided among ranks: a rank without samples, and random numbers.
#include "sets.hpp"

#include <memory>
#include <span>

using namespace ikebana;

namespace test::data::ranks {

/// Returns the options of rank r of n.
DataLoaderOptions part(std::int64_t r, std::int64_t n, std::int64_t workers = 0) {
  return {.batch_size = 4, .num_workers = workers, .num_replicas = n, .rank = r};
}
template <class Dataset>
void gives_no_rows(const char* name, const Dataset& dataset) {
  CAPTURE(name);
  for (std::int64_t workers : {0, 2}) {
    DataLoader one(dataset, part(0, 1)), none(dataset, part(0, 5, workers));
    const Batches full = epoch(one), empty = epoch(none);
    REQUIRE(empty.size() == full.size());
    for (std::size_t k = 0; k < full.size(); ++k) {
      REQUIRE(empty[k].size() == full[k].size());
      for (std::size_t i = 0; i < full[k].size(); ++i)
        CHECK(same_bits(empty[k][i], full[k][i].narrow(0, 0, 0)));
    }
  }
}
TEST_CASE("ranks: a rank without samples is given batches without rows, of every kind of dataset") {
  gives_no_rows("structs", Structs()), gives_no_rows("numbers", Numbers());
  gives_no_rows("gathered", Gathered()), gives_no_rows("LibTorch's", Torch());
  gives_no_rows("mapped", mapped(23)), gives_no_rows("tensors", tensors(23));
  gives_no_rows("noisy", Noisy()), gives_no_rows("noisy batches", NoisyBatch());
}

struct Texts : All {
  using Sample = std::tuple<ikebana::Ragged, std::map<std::string, at::Tensor>, std::string>;
  Sample get(std::int64_t i) const {
    return {ikebana::Ragged{std::vector{at::ones({i + 1, 3})}}, {{"ids", target[i]}}, "text"};
  }
};
TEST_CASE("ranks: Raggeds, maps and texts have no rows then, and a collate function's batch, too") {
  DataLoader loader(Texts(), part(0, 5));
  for (auto& [ragged, map, texts] : loader) {
    CHECK(ragged.size() == 0);
    CHECK((ragged.values().sizes() == at::IntArrayRef{0, 3}));
    CHECK((map.at("ids").sizes() == at::IntArrayRef{0}));
    CHECK(texts.empty());
  }
  auto twice = [](const std::vector<Pair>& samples) {  // two rows of each sample
    std::vector<at::Tensor> rows;
    for (const Pair& s : samples) rows.insert(rows.end(), {s.input, s.input});
    return at::stack(rows);
  };
  DataLoader rows(Structs(), part(0, 5), twice);
  for (auto& batch : rows) CHECK((batch.sizes() == at::IntArrayRef{0, 2}));
}

TEST_CASE(
    "ranks: a collate function whose batch shows no rows is an error with the batch's place") {
  auto refused = [](auto collate) {
    DataLoader loader(Structs(), part(0, 5), collate);
    loader.seek({2, 3});
    const std::string text = message_of<BadBatch>([&] { loader.begin(); });
    CHECK(loader.position() == BatchPosition{2, 3});
    CHECK(contains(text, "no sample of epoch 2, batch 3"));
    DataLoader other(Structs(), part(4, 5), collate);  // this rank has one
    CHECK_NOTHROW(other.begin());
    return text;
  };
  CHECK(contains(
      refused([](const std::vector<Pair>& samples) { return std::make_shared<Pair>(samples[0]); }),
      "shows no field with rows"));
  CHECK(contains(refused([](const std::vector<Pair>& samples) {
                   return Pair{samples[0].input, at::ones({3})};
                 }),
                 "differ in their rows"));
  CHECK(contains(refused([](const std::vector<Pair>& samples) {
                   static std::vector<at::Tensor> memory;
                   memory = {samples[0].input};
                   return std::span<at::Tensor>(memory);
                 }),
                 "refers to tensors of others"));
}

TEST_CASE("ranks: a sample's random numbers are the same on any number of ranks") {
  auto rows = [](std::int64_t n, auto dataset) {
    std::vector<std::vector<at::Tensor>> all;
    for (std::int64_t r = 0; r < n; ++r) {
      DataLoader loader(dataset, part(r, n));
      const Batches batches = epoch(loader);
      all.resize(batches.size());
      for (std::size_t k = 0; k < batches.size(); ++k) all[k].push_back(batches[k][0]);
    }
    std::vector<at::Tensor> joined;
    for (const auto& parts : all) joined.push_back(at::cat(parts));
    return joined;
  };
  for (std::int64_t n : {2, 3, 7}) CHECK(same_bits(rows(n, Noisy()), rows(1, Noisy())));
  // If batches are given whole, each rank draws numbers of its own.
  const auto all = All().input;
  DataLoader first(NoisyBatch(), part(0, 2)), second(NoisyBatch(), part(1, 2));
  const at::Tensor a = next(first, 1)[0][0] - all.narrow(0, 0, 2),
                   b = next(second, 1)[0][0] - all.narrow(0, 2, 2);
  CHECK_FALSE(a.allclose(b, 0.1));
}

TEST_CASE("ranks: a saved position loads on another number of ranks, and of no other batch size") {
  DataLoader one(Structs(), part(0, 1)), third(Structs(), part(2, 3));
  next(one, 9);
  load(third, saved(one));
  CHECK(third.position() == BatchPosition{1, 3});
  next(third, 1);
  load(one, saved(third));
  CHECK(one.position() == BatchPosition{1, 4});
  DataLoader other(Structs(), {.batch_size = 2, .num_replicas = 2});
  CHECK(contains(message_of<BadState>([&] { load(other, saved(one)); }), "batch_size` is 4"));
}

}  // namespace test::data::ranks
