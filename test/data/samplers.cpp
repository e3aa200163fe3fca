// Tests samplers, splits, and datasets that are made of others.
#include "sets.hpp"

#include <numeric>
#include <set>

#include <ikebana.hpp>
#include <ikebana/samplers.hpp>

using namespace ikebana;

namespace test::data::samplers {

/// A dataset whose samples are their indices.
struct Indices {
  std::int64_t n;
  std::int64_t size() const { return n; }
  at::Tensor get(std::int64_t i) const { return at::scalar_tensor(i, at::kLong); }
};
std::vector<std::int64_t> list(const at::Tensor& t) {
  const at::Tensor all = t.contiguous();
  const auto* first = all.const_data_ptr<std::int64_t>();
  return {first, first + all.numel()};
}
template <class Loader>
std::vector<std::vector<std::int64_t>> epoch_of(Loader& loader) {
  std::vector<std::vector<std::int64_t>> batches;
  for (auto& batch : loader) batches.push_back(list(batch));
  return batches;
}
std::vector<std::int64_t> joined(const std::vector<std::vector<std::int64_t>>& batches) {
  std::vector<std::int64_t> all;
  for (const auto& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}
std::vector<std::int64_t> sorted(std::vector<std::int64_t> all) {
  std::sort(all.begin(), all.end());
  return all;
}
std::vector<std::int64_t> numbers(std::int64_t n) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

struct Backwards {
  std::int64_t size(std::int64_t samples) const { return samples; }
  std::int64_t index(std::int64_t position, const SampledEpoch& epoch) const {
    return epoch.samples - 1 - position;
  }
};
struct OneToN {  // batch k has k + 1 samples
  std::int64_t size(std::int64_t) const { return 4; }
  std::vector<std::int64_t> batch(std::int64_t number, const SampledEpoch& epoch) const {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i <= number; ++i) all.push_back((10 * epoch.epoch + i) % 20);
    return all;
  }
};
const at::Tensor lengths = (at::arange(97, at::kLong) * 37) % 23 + 1;
const at::Tensor weights = (at::arange(97) % 5).to(at::kFloat);

/// Every sampler, for 97 samples.
std::vector<std::pair<std::string, Sampler>> all_samplers() {
  return {{"own", Backwards()},
          {"own batches", OneToN()},
          {"weighted", WeightedSampler(weights)},
          {"weighted, more", WeightedSampler(weights, 200)},
          {"buckets", BucketSampler(lengths, {.batch_size = 8})},
          {"tokens", BucketSampler(lengths, {.max_tokens = 64})},
          {"packed", PackedSampler(lengths, 64)},
          {"mixture", MixtureSampler({50, 40, 7}, {0.2, 0.2, 0.6}, 120)}};
}

TEST_CASE("samplers: batches do not depend on workers, ranks or where a loop resumes") {
  for (const auto& [name, sampler] : all_samplers()) {
    CAPTURE(name);
    DataLoaderOptions options{
        .batch_size = sampler.makes_batches() ? 1 : 10, .sampler = sampler, .seed = 5};
    DataLoader whole(Indices{97}, options);
    std::vector<std::vector<std::vector<std::int64_t>>> epochs;
    for (int e = 0; e < 3; ++e) epochs.push_back(epoch_of(whole));
    for (const std::int64_t workers : {0, 1, 3}) {
      options.num_workers = workers;
      DataLoader loader(Indices{97}, options);
      loader.seek({1, 2});
      auto rest = epoch_of(loader);
      CHECK(rest == std::vector(epochs[1].begin() + 2, epochs[1].end()));
      CHECK(epoch_of(loader) == epochs[2]);
    }
    options.num_workers = 0;
    std::vector<std::vector<std::int64_t>> of_ranks(epochs[0].size());
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      options.num_replicas = 3, options.rank = rank;
      DataLoader loader(Indices{97}, options);
      const auto mine = epoch_of(loader);
      REQUIRE(mine.size() == of_ranks.size());
      for (std::size_t b = 0; b < mine.size(); ++b)
        of_ranks[b].insert(of_ranks[b].end(), mine[b].begin(), mine[b].end());
    }
    CHECK(of_ranks == epochs[0]);
  }
}

TEST_CASE("samplers: another sampler, or none, does not load the position of a saved one") {
  Trainer trainer(torch::nn::Linear(1, 1), MSELoss{}, SGD{.lr = 0.1});
  const auto load = [&](const Sampler& saved, const Sampler& loaded) {
    DataLoader from(Indices{97}, {.sampler = saved}), to(Indices{97}, {.sampler = loaded});
    return message_of<BadState>([&] { trainer.restore(trainer.state(from), to); });
  };
  const Sampler weighted = WeightedSampler(weights), same = WeightedSampler(weights.clone()),
                other = WeightedSampler(weights + 1);
  CHECK(load(weighted, same).empty());
  CHECK(load({}, {}).empty());
  CHECK(contains(load(weighted, other), "sampler"));
  CHECK(contains(load(weighted, {}), "is saved, and this loader has none"));
  CHECK(contains(load({}, weighted), "sampler"));
}

TEST_CASE("samplers: options that they exclude, and indices that do not exist, are errors") {
  const auto message = [](const DataLoaderOptions& options) {
    return message_of<BadValue>([&] {
      DataLoader loader(Indices{20}, options);
      for (auto& batch : loader) (void)batch;
    });
  };
  struct Wrong {
    std::int64_t positions;
    std::int64_t size(std::int64_t) const { return positions; }
    std::int64_t index(std::int64_t position, const SampledEpoch&) const { return position; }
  };
  struct NoBatch {
    std::int64_t size(std::int64_t) const { return 1; }
    std::vector<std::int64_t> batch(std::int64_t, const SampledEpoch&) const { return {}; }
  };
  CHECK(contains(message({.shuffle = true, .sampler = Backwards()}), "both choose the order"));
  CHECK(
      contains(message({.batch_size = 2, .sampler = OneToN()}), "the sampler makes whole batches"));
  CHECK(contains(message({.sampler = OneToN(), .drop_last = true}),
                 "the sampler makes whole batches"));
  CHECK(contains(message({.sampler = Wrong{21}}), "chose sample 20; the dataset has 20"));
  CHECK(contains(message({.sampler = Wrong{0}}), "size(20) of the sampler is 0"));
  CHECK(contains(message({.sampler = NoBatch()}), "batch 0 of epoch 0 has no samples"));
  CHECK(contains(message({.sampler = WeightedSampler(weights)}), "97 weights, and the dataset 20"));
  CHECK(
      contains(message({.sampler = PackedSampler(lengths, 64)}), "97 lengths, and the dataset 20"));
  CHECK(contains(message({.sampler = MixtureSampler({9}, {1})}), "its parts have 9 samples"));
}

TEST_CASE("weighted sampler: shares are those of the weights, in each epoch others are drawn") {
  const at::Tensor uneven = at::tensor({0.0, 1.0, 2.0, 0.0, 5.0, 0.5, 1e-9});
  const WeightedSampler sampler(uneven, 200000);
  at::Tensor counts = at::zeros({7}, at::kLong);
  for (std::int64_t i = 0; i < 200000; ++i) counts[sampler.index(i, {7, 0, 1})] += 1;
  const at::Tensor shares = counts.to(at::kDouble) / 200000, expected = uneven / uneven.sum();
  CHECK((shares - expected).abs().max().item<double>() < 0.004);
  CHECK(counts[0].item<int>() == 0);
  CHECK(counts[3].item<int>() == 0);
  const auto draws = [&](std::int64_t epoch, std::uint64_t seed) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < 50; ++i) all.push_back(sampler.index(i, {7, epoch, seed}));
    return all;
  };
  CHECK(draws(0, 1) == draws(0, 1));
  CHECK(draws(0, 1) != draws(1, 1));
  CHECK(draws(0, 1) != draws(0, 2));
  CHECK(contains(message_of<BadValue>([] { WeightedSampler(at::tensor({1.0, -1.0})); }),
                 "the weight of sample 1 is -1"));
  CHECK(
      contains(message_of<BadValue>([] { WeightedSampler(at::tensor({1.0, NAN})); }), "sample 1"));
  CHECK(contains(message_of<BadValue>([] { WeightedSampler(at::zeros({3})); }), "add up to 0"));
  CHECK(contains(message_of<BadValue>([] { WeightedSampler(at::zeros({3, 1})); }), "[3, 1]"));
  const at::Tensor balanced = balanced_weights(at::tensor({0, 2, 0, 0, 2, 5}, at::kLong));
  CHECK(at::allclose(balanced, at::tensor({1 / 3., .5, 1 / 3., 1 / 3., .5, 1.}, at::kDouble)));
  CHECK(contains(message_of<BadValue>([] { balanced_weights(at::tensor({-1})); }), "from 0"));
}

TEST_CASE("batches by length: every sample once, within the limits, little padding") {
  const auto length = [](std::int64_t i) { return lengths[i].item<std::int64_t>(); };
  for (const auto& [name, sampler] : all_samplers()) {
    if (!sampler.makes_batches() || name == "own batches") continue;
    CAPTURE(name);
    DataLoader loader(Indices{97}, {.sampler = sampler});
    const auto first = epoch_of(loader), second = epoch_of(loader);
    CHECK(sorted(joined(first)) == numbers(97));
    CHECK(sorted(joined(second)) == numbers(97));
    CHECK(first != second);
    std::int64_t padded = 0;
    for (const auto& batch : first) {
      std::int64_t longest = 0, all = 0;
      for (const std::int64_t i : batch) longest = std::max(longest, length(i)), all += length(i);
      const auto n = std::int64_t(batch.size());
      if (name == "buckets") CHECK(n <= 8);
      if (name == "tokens") CHECK(longest * n <= 64);
      if (name == "packed") CHECK(all <= 64);
      padded += longest * n;
    }
    const auto total = lengths.sum().item<double>();
    if (name == "packed") CHECK(first.size() == std::size_t(std::ceil(total / 64)));
    else CHECK(double(padded) < 1.1 * total);
  }
  const auto message = [](auto f) { return message_of<BadValue>(f); };
  CHECK(contains(message([] { BucketSampler(lengths, {.max_tokens = 22}); }),
                 "the longest sample has 23 tokens, and a batch at most 22"));
  CHECK(contains(message([] { BucketSampler(lengths, {}); }), "Set one of the two"));
  CHECK(contains(message([] { BucketSampler(lengths, {.batch_size = 2, .max_tokens = 50}); }),
                 "Set one of the two"));
  CHECK(contains(message([] { PackedSampler(lengths, 0); }), "max_tokens is 0"));
  CHECK(contains(message([] { PackedSampler(lengths - 5, 50); }), "it must be 0 or more"));
  CHECK(contains(message([] { PackedSampler(lengths.to(at::kFloat), 50); }), "which are integers"));
}

TEST_CASE(
    "mixture: parts have their shares, and all samples of a part come before one comes again") {
  const std::vector<std::int64_t> sizes{10000, 500, 3000};
  const MixtureSampler mixture(sizes, {6, 3, 1}, 65536);
  std::vector<std::vector<std::int64_t>> drawn(3);
  for (std::int64_t epoch = 0; epoch < 2; ++epoch)
    for (std::int64_t i = 0; i < 65536; ++i) {
      const std::int64_t index = mixture.index(i, {13500, epoch, 3});
      drawn[index < 10000 ? 0 : index < 10500 ? 1 : 2].push_back(index);
    }
  const double shares[] = {0.6, 0.3, 0.1};
  for (std::size_t part = 0; part < 3; ++part) {
    CHECK(std::abs(double(drawn[part].size()) - shares[part] * 131072) <= 2);
    std::map<std::int64_t, std::int64_t> counts;
    for (const std::int64_t index : drawn[part]) ++counts[index];
    CHECK(std::ssize(counts) == sizes[part]);
    const auto [least, most] = std::minmax_element(
        counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
    CHECK(most->second - least->second <= 2);  // a round lies at random places of its block
  }
  const MixtureSampler rare({5, 5}, {1e9, 1e-9});
  std::int64_t of_second = 0;
  for (std::int64_t i = 0; i < 65536; ++i) of_second += rare.index(i, {10, 0, 0}) >= 5;
  CHECK(of_second == 1);
  CHECK(
      contains(message_of<BadValue>([] { MixtureSampler({1, 2}, {1}); }), "2 sizes and 1 weights"));
  CHECK(contains(message_of<BadValue>([] { MixtureSampler({1, 0}, {1, 1}); }), "a size above 0"));
  CHECK(
      contains(message_of<BadValue>([] { MixtureSampler({1, 2}, {0, 0}); }), "not all of them 0"));
}

const at::Tensor labels = (at::arange(1000, at::kLong) % 10 < 7).to(at::kLong) * 4;  // 300, 700

TEST_CASE("splits: parts are disjoint, have their shares in all classes, and repeat under a seed") {
  for (const bool is_stratified : {false, true}) {
    const std::vector<double> shares{0.8, 0.15, 0.05};
    const auto split = [&](std::uint64_t seed) {
      return is_stratified ? stratified_split(labels, shares, seed)
                           : random_split(1000, shares, seed);
    };
    const auto parts = split(1);
    std::vector<std::int64_t> all;
    for (std::size_t p = 0; p < 3; ++p) {
      const auto part = list(parts[p]);
      CHECK(part == sorted(part));
      CHECK(std::abs(double(part.size()) - 1000 * shares[p]) <= 1);
      all.insert(all.end(), part.begin(), part.end());
      if (is_stratified)
        CHECK(std::abs((labels.index_select(0, parts[p]) == 0).sum().item<double>() -
                       300 * shares[p]) <= 1);
    }
    CHECK(sorted(all) == numbers(1000));
    CHECK(same_bits(split(1), parts));
    CHECK(!same_bits(split(2), parts));
  }
  CHECK(contains(message_of<BadValue>([] { random_split(10, {0.5, 0.4}); }), "add up to 1"));
  CHECK(contains(message_of<BadValue>([] { random_split(10, {1.5, -0.5}); }), "above 0"));
  CHECK(contains(message_of<BadValue>([] { random_split(3, {0.97, 0.01, 0.02}); }),
                 "would have no sample"));
  CHECK(contains(message_of<BadValue>([] { k_folds(3, 4); }), "4 folds of 3 samples"));
  CHECK(contains(message_of<BadValue>([] { stratified_split(at::ones({3, 1}), {1}); }),
                 "the labels of all samples"));
}

TEST_CASE("folds: each sample is left for validation once, and classes have equal shares") {
  for (const bool is_stratified : {false, true}) {
    const auto folds = is_stratified ? stratified_k_folds(labels, 7, 1) : k_folds(1000, 7, 1);
    std::vector<std::int64_t> validated;
    for (const Fold& fold : folds) {
      const auto validation = list(fold.validation);
      CHECK(std::abs(double(validation.size()) - 1000. / 7) < 1);
      if (is_stratified)
        CHECK(std::abs((labels.index_select(0, fold.validation) == 0).sum().item<double>() -
                       300. / 7) <= 1);
      auto both = list(fold.train);
      both.insert(both.end(), validation.begin(), validation.end());
      CHECK(sorted(both) == numbers(1000));
      validated.insert(validated.end(), validation.begin(), validation.end());
    }
    CHECK(sorted(validated) == numbers(1000));
  }
}

TEST_CASE("combined datasets: subsets, concatenations and stacks give the samples of their parts") {
  All all;
  const Structs structs;
  const Gathered gathered;
  const at::Tensor chosen = at::tensor({5, 0, 22, 5}, at::kLong);
  const auto rows_of = [](auto dataset) {
    DataLoader loader(std::move(dataset), {.batch_size = 100});
    std::vector<at::Tensor> rows;
    for (auto& batch : loader) rows = {batch.input, batch.target};
    return rows;
  };
  const std::vector<at::Tensor> expected{all.input.index_select(0, chosen),
                                         all.target.index_select(0, chosen)};
  CHECK(same_bits(rows_of(Subset{structs, chosen}), expected));
  CHECK(same_bits(rows_of(Subset{&structs, chosen}), expected));
  CHECK(same_bits(rows_of(Subset{gathered, chosen}), expected));
  CHECK(same_bits(rows_of(Subset{tensors(23), chosen}), expected));
  CHECK(same_bits(rows_of(ConcatDataset{Structs(2), Subset{&structs, chosen}}),
                  {at::cat({all.input.narrow(0, 0, 2), expected[0]}),
                   at::cat({all.target.narrow(0, 0, 2), expected[1]})}));
  CHECK(ConcatDataset{Structs(2), Structs(5), Structs(1)}.sizes() ==
        std::vector<std::int64_t>{2, 5, 1});
  DataLoader stacked(StackDataset{structs, Indices{23}}, {.batch_size = 23});
  for (auto& [pair, index] : stacked) {
    CHECK(same_bits(pair.input, all.input));
    CHECK(same_bits(index, at::arange(23)));
  }
}

TEST_CASE("combined datasets: random numbers depend on their own indices, and misuse is an error") {
  const Structs structs;
  const at::Tensor chosen = at::tensor({5, 0, 22, 5}, at::kLong);
  // A subset's random numbers depend on its own indices, with any number of workers.
  DataLoader noisy(Subset{Noisy(), at::arange(23)}, {.batch_size = 23});
  DataLoader plain(Noisy(), {.batch_size = 23, .num_workers = 2});
  CHECK(noisy.varies());
  CHECK(!DataLoader(Subset{structs, chosen}).varies());
  auto one = noisy.begin();
  auto other = plain.begin();
  CHECK(same_bits((*one).input, (*other).input));
  CHECK(contains(message_of<BadValue>([&] { Subset{structs, at::tensor({23})}; }),
                 "there is no sample 23"));
  CHECK(contains(message_of<BadValue>([&] { Subset{structs, at::ones({23}, at::kBool)}; }),
                 "mask.nonzero()"));
  CHECK(contains(message_of<BadValue>([&] { StackDataset{structs, Indices{22}}; }),
                 "have 23 and 22 samples"));
}

TEST_CASE("datasets: a sample that is an empty optional is left out of its batch") {
  struct SomeBad {
    std::int64_t size() const { return 10; }
    std::optional<at::Tensor> get(std::int64_t i) const {
      if (i == 1 || i == 2 || i >= 8) return std::nullopt;
      return at::scalar_tensor(i, at::kLong);
    }
  };
  for (const std::int64_t workers : {0, 2}) {
    DataLoader loader(SomeBad(), {.batch_size = 4, .num_workers = workers});
    std::vector<std::vector<std::int64_t>> batches;
    const std::string message = message_of<BadSample>([&] {
      for (auto& batch : loader) batches.push_back(list(batch));
    });
    CHECK(batches == std::vector<std::vector<std::int64_t>>{{0, 3}, {4, 5, 6, 7}});
    CHECK(contains(message, "left out all samples of epoch 0, batch 2 (8, 9)"));
  }
}

}  // namespace test::data::samplers
