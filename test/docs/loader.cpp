// Compiles and runs the code that docs/data.md shows.
#include "test.hpp"

#include <filesystem>
#include <ikebana.hpp>

using namespace ikebana;

namespace test::docs::loader {

struct Digits {
  at::Tensor input, target;
};

/// Augmented: half of the images are mirrored, all get noise.
struct Augmented {
  Digits all;

  std::int64_t size() const { return all.input.size(0); }
  Digits get(std::int64_t index, SampleRng& rng) const {
    at::Tensor image = all.input[index];
    if (rng.uniform() < 0.5) image = image.flip(-1);
    image = image + 0.1 * at::randn(image.sizes(), rng.generator());
    return {image, all.target[index]};
  }
};

Digits digits() {
  return {at::sin(at::arange(64 * 16.f)).view({64, 1, 4, 4}), at::arange(64) % 10};
}
auto model() {
  torch::manual_seed(0);
  return torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(16, 10));
}

TEST_CASE("data.md: a loop over epochs resumes at the exact sample, with other workers") {
  auto path = std::filesystem::temp_directory_path() / "ikebana_data_md.safetensors";
  Augmented dataset{digits()};
  auto whole = model(), stopped = model(), resumed = model();
  auto make = [&](std::int64_t workers) {
    return DataLoader(dataset, {.batch_size = 12, .shuffle = true, .num_workers = workers});
  };
  {
    Trainer trainer{whole, CrossEntropyLoss{}};
    DataLoader loader{dataset, {.batch_size = 12, .shuffle = true, .num_workers = 2, .seed = 0}};
    while (loader.epoch() < 3)
      for (auto& batch : loader) trainer.step(batch);
  }
  {
    Trainer trainer{stopped, CrossEntropyLoss{}};
    auto loader = make(0);
    for (auto& batch : loader) {
      trainer.step(batch);
      if (trainer.steps() == 4) trainer.save(path, loader);
    }
  }
  Trainer trainer{resumed, CrossEntropyLoss{}};
  auto loader = make(3);
  trainer.load(path, loader);
  CHECK(loader.position() == BatchPosition{0, 4});
  while (loader.epoch() < 3)
    for (auto& batch : loader) trainer.step(batch);
  auto expected = whole->parameters(), got = resumed->parameters();
  CHECK(same_bits(got, expected));
  std::filesystem::remove(path);
}

struct Reviews {
  Ragged tokens;                    // samples of different lengths
  at::Tensor stars;                 // one row per sample
  std::vector<std::string> titles;  // one per sample
};
struct ReviewDataset {
  struct Reviews {
    Ragged tokens;
    at::Tensor stars;
  };
  std::vector<at::Tensor> tokens;
  at::Tensor stars;

  std::int64_t size() const { return stars.size(0); }
  Reviews get(std::int64_t index) const {
    return {Ragged{{tokens[std::size_t(index)]}}, stars[index]};
  }
};

TEST_CASE("data.md: samples of different lengths") {
  ReviewDataset dataset{{at::arange(3), at::arange(5), at::arange(2)}, at::arange(3)};
  DataLoader loader{dataset, {.batch_size = 3}};
  for (auto& batch : loader) {
    CHECK(batch.tokens.lengths() == std::vector<std::int64_t>{3, 5, 2});
    auto parts = ikebana::split(Reviews{batch.tokens, batch.stars, {"a", "b", "c"}}, 2);
    CHECK(parts[1].titles == std::vector<std::string>{"c"});
  }
}

struct Sentence {
  at::Tensor input, target;  // (length): symbols, and those that follow
  at::Tensor lengths;        // left empty, and filled for a batch
};
struct Texts {
  std::int64_t size() const { return 6; }
  Sentence get(std::int64_t i) const {
    const at::Tensor text = at::arange(i + 2) % 9;
    return {text.slice(0, 0, -1), text.slice(0, 1), {}};
  }
};

TEST_CASE("data.md: padded sentences") {
  const Texts texts;
  torch::nn::Sequential model(torch::nn::Embedding(9, 4), torch::nn::Linear(4, 9));
  auto objective = [](auto& run, auto& net, const Sentence& batch) -> Loss {
    const at::Tensor logits = run(net, batch.input).transpose(1, 2);
    return {at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            batch.lengths.sum()};
  };
  PadCollate<Sentence> pads{{{&Sentence::input, 0, &Sentence::lengths}, {&Sentence::target, -100}}};
  DataLoader loader{texts, {.batch_size = 3, .shuffle = true}, pads};
  Trainer trainer{model, objective, AdamW{.lr = 1e-2}};
  for (auto& batch : loader) trainer.step(batch);
  CHECK(trainer.steps() == 2);

  std::vector<at::Tensor> samples{at::arange(3), at::arange(5)};
  Padded padded = pad(samples, {.padding_value = -100, .pad_to_multiple_of = 8});
  CHECK(padded.values.sizes() == at::IntArrayRef({2, 8}));
}

TEST_CASE("data.md: tensors in memory, and samples of other forms") {
  auto [images, labels] = digits();
  TensorDataset dataset(Digits{images, labels});
  DataLoader loader{dataset, {.batch_size = 32, .shuffle = true, .drop_last = true}};
  for (auto& batch : loader) CHECK(batch.input.sizes() == at::IntArrayRef({32, 1, 4, 4}));

  struct Sentences {
    std::vector<at::Tensor> all;
    std::int64_t size() const { return std::int64_t(all.size()); }
    at::Tensor get(std::int64_t index) const { return all[std::size_t(index)]; }
  };
  Sentences sentences{{at::ones({3}), at::ones({5}), at::ones({2})}};
  auto pad = [](const std::vector<at::Tensor>& samples) {
    return torch::nn::utils::rnn::pad_sequence(samples, /*batch_first=*/true);
  };
  DataLoader padded{sentences, {.batch_size = 3}, pad};
  for (auto& batch : padded) CHECK(batch.sizes() == at::IntArrayRef({3, 5}));
}

}  // namespace test::docs::loader
