// Examples of the reference: samplers, splits, joined datasets and streams.
#include <ikebana/files/npy.hpp>
#include <ikebana/samplers.hpp>
#include <ikebana/streams/stream_loader.hpp>
#include <ranges>

#include "images/temporary.hpp"
#include "policies.hpp"

namespace test::reference::of_samplers {

using Folder = test::images::Folder;

TensorDataset<Rows> small(std::int64_t n = 90) {
  return TensorDataset(Rows{at::randn({n, 4}), at::arange(n) % 3});
}
struct Sentences {  // sample i has 1 to 9 tokens
  std::int64_t size() const { return 90; }
  at::Tensor get(std::int64_t index) const { return at::arange(index % 9 + 1); }
};
struct Texts {
  std::int64_t count;
  std::int64_t size() const { return count; }
  at::Tensor get(std::int64_t index) const { return at::full({4}, index); }
};
const at::Tensor lengths = at::arange(90) % 9 + 1;

// example: Sampler, PositionSampler, SampledEpoch
struct Newest {  // the last 60 samples, from another one on in each epoch
  std::int64_t size(std::int64_t) const { return 60; }
  std::int64_t index(std::int64_t position, const SampledEpoch& at) const {
    return at.samples - 60 + (position + 7 * at.epoch) % 60;
  }
};
static_assert(PositionSampler<Newest>);

DataLoaderOptions of_newest() {
  Sampler sampler = Newest{};
  return {.batch_size = 20, .sampler = sampler};
}
// end

// example: BatchSampler
struct Growing {  // batch k has k + 1 samples
  std::int64_t size(std::int64_t) const { return 4; }
  std::vector<std::int64_t> batch(std::int64_t number, const SampledEpoch&) const {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i <= number; ++i) all.push_back(10 * number + i);
    return all;
  }
};
static_assert(BatchSampler<Growing>);
// end

TEST_CASE("reference: samplers of your own") {
  DataLoader newest{small(), of_newest()};
  DataLoader growing{small(), {.sampler = Growing{}}};
  std::int64_t rows = 0;
  for (auto& batch : growing) rows += batch.input.size(0);
  CHECK((newest.size() == 3 && rows == 10));
}

TEST_CASE("reference: samplers") {
  const auto dataset = small();
  const at::Tensor labels = at::arange(90) % 3;
  // example: WeightedSampler, balanced_weights
  at::Tensor weights = balanced_weights(labels);  // 1 / (number of samples of the class)
  WeightedSampler sampler(weights, /*draws=*/60);
  DataLoader loader{dataset, {.batch_size = 20, .sampler = sampler}};
  // end
  CHECK(loader.size() == 3);

  const Texts web{80}, books{10};
  // example: MixtureSampler, ConcatDataset
  ConcatDataset all{web, books};
  MixtureSampler mixture(all.sizes(), {0.7, 0.3});  // books are read several times per epoch
  DataLoader mixed{all, {.batch_size = 10, .sampler = mixture}};
  // end
  CHECK(mixed.size() == 9);
}

TEST_CASE("reference: batches by length") {
  const Sentences sentences;
  auto pads = [](const std::vector<at::Tensor>& samples, const at::Tensor&) {
    return at::pad_sequence(samples, /*batch_first=*/true);
  };
  // example: BucketSampler, BucketOptions
  BucketOptions options{.max_tokens = 40};  // a padded batch has at most these; or `batch_size`
  BucketSampler buckets(lengths, options);
  DataLoader loader{sentences, {.sampler = buckets}, pads};
  std::int64_t padded = 0;
  for (at::Tensor& batch : loader) padded = std::max(padded, batch.numel());
  // end
  CHECK((padded > 30 && padded <= 40));

  // example: PackedSampler
  auto joins = [](const std::vector<at::Tensor>& samples, const at::Tensor&) {
    return at::cat(samples);
  };
  PackedSampler sampler(lengths, /*max_tokens=*/50);
  DataLoader packed{sentences, {.sampler = sampler}, joins};
  for (at::Tensor& batch : packed) CHECK(batch.numel() == 50);  // 450 tokens: all are full
  // end
  CHECK(packed.size() == 9);
}

TEST_CASE("reference: parts and folds") {
  const auto dataset = small();
  const at::Tensor labels = at::arange(90) % 3;
  // example: random_split, Subset
  std::vector<at::Tensor> parts = random_split(dataset.size(), {0.8, 0.2}, /*seed=*/7);
  DataLoader train{Subset{&dataset, parts[0]}, {.batch_size = 32, .shuffle = true}};
  DataLoader validation{Subset{&dataset, parts[1]}, {.batch_size = 64}};
  // end
  CHECK((train.size() == 3 && validation.size() == 1));

  // example: stratified_split
  auto thirds = stratified_split(labels, {2. / 3, 1. / 3});  // each class in the same shares
  Subset some{&dataset, thirds[1]};
  at::Tensor counts = labels.index_select(0, thirds[1]).bincount();  // {10, 10, 10}
  // end
  CHECK((some.size() == 30 && counts[2].item<std::int64_t>() == 10));

  // example: k_folds, Fold
  for (const Fold& fold : k_folds(dataset.size(), /*folds=*/5)) {
    DataLoader rows{Subset{&dataset, fold.train}, {.batch_size = 24, .shuffle = true}};
    DataLoader others{Subset{&dataset, fold.validation}, {.batch_size = 24}};
    Trainer trainer{test::policies::net(), CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
    trainer.fit(rows, {.epochs = 1, .validate = others});
  }
  // end

  // example: stratified_k_folds
  std::vector<Fold> folds = stratified_k_folds(labels, /*folds=*/5, /*seed=*/7);
  Subset first{&dataset, folds[0].train};
  at::Tensor left = labels.index_select(0, folds[0].validation).bincount();  // {6, 6, 6}
  // end
  CHECK((first.size() == 72 && left[0].item<std::int64_t>() == 6));
}

TEST_CASE("reference: the same sample of two files") {
  const Folder temporary("reference_stack");
  const std::filesystem::path& folder = temporary.root;
  write_npy(folder / "images.npy", at::rand({10, 3, 8, 8}));
  write_npy(folder / "labels.npy", at::arange(10) % 3);
  // example: StackDataset
  StackDataset dataset{NpyRows{folder / "images.npy"}, NpyRows{folder / "labels.npy"}};
  DataLoader loader{dataset, {.batch_size = 5, .shuffle = true}};
  for (auto& [images, labels] : loader) CHECK(images.size(0) == labels.size(0));
  // end
}

TEST_CASE("reference: streams") {
  // example: StreamLoader, StreamOptions
  auto numbers = [](std::int64_t epoch) { return std::views::iota(100 * epoch, 100 * epoch + 23); };
  auto sample = [](std::int64_t number, SampleRng& rng) {
    return number + 0.1 * at::rand({4}, rng.generator());
  };
  StreamOptions options{.batch_size = 8, .shuffle_buffer = 16, .num_workers = 2, .seed = 7};
  StreamLoader loader{numbers, options, sample};
  std::int64_t rows = 0;
  for (at::Tensor& batch : loader) rows += batch.size(0);  // 8, 8, 7
  // end
  CHECK(rows == 23);

  // example: Unchanged
  auto tensors = [] { return std::vector<at::Tensor>(10, at::ones({4})); };
  auto stacks = [](const std::vector<at::Tensor>& items, const at::Tensor&) {
    return at::stack(items);
  };
  StreamLoader plain{tensors, StreamOptions{.batch_size = 5}, Unchanged{}, stacks};
  // end
  for (at::Tensor& batch : plain) CHECK(batch.sizes() == at::IntArrayRef{5, 4});
}

TEST_CASE("reference: as many workers as it takes") {
  auto model = test::policies::net();
  // example: automatic
  DataLoader loader{small(), {.batch_size = 30, .shuffle = true, .num_workers = automatic}};
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}};
  trainer.fit(loader, {.epochs = 2});  // another thread begins whenever the model waits for data
  // end
  CHECK(trainer.steps() == 6);
}

}  // namespace test::reference::of_samplers
