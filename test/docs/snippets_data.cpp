// The code of docs/data.md, docs/samplers.md and docs/modules.md on files, samplers, streams and
// packed sequences.
#include "test.hpp"

#include <filesystem>
#include <fstream>

#include <ikebana.hpp>
#include <ikebana/data.hpp>
#include <ikebana/modules/attention.hpp>

using namespace ikebana;

namespace test::docs::data_files {

/// A folder with a text of 4000 tokens in two files of 16 bits; every 50th token ends a document.
struct TokenFolder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("ikebana_docs_data_" + std::to_string(::getpid()));
  TokenFolder() {
    std::filesystem::create_directories(path);
    for (const char* name : {"train_000.bin", "train_001.bin"}) {
      std::ofstream file(path / name, std::ios::binary);
      for (int i = 1; i <= 2000; ++i) {
        const std::uint16_t token = i % 50 == 0 ? 255 : std::uint16_t(i * 7 % 250);
        file.write(reinterpret_cast<const char*>(&token), 2);
      }
    }
  }
  ~TokenFolder() { std::filesystem::remove_all(path); }
};

struct LanguageModelImpl : torch::nn::Module {
  torch::nn::Embedding embedding = register_module("embedding", torch::nn::Embedding(256, 16));
  torch::nn::Embedding position = register_module("position", torch::nn::Embedding(64, 16));
  torch::nn::Linear qkv = register_module("qkv", torch::nn::Linear(16, 48));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(16, 256));

  at::Tensor forward(const at::Tensor& tokens) {
    return head(embedding(tokens)).transpose(1, 2);  // (rows, classes, length)
  }
  at::Tensor forward(const Ragged& tokens) {
    at::Tensor x = embedding(tokens.values()) + position(tokens.positions());  // (tokens, 16)
    auto parts = qkv(x).unflatten(-1, {3, 2, 8}).permute({1, 2, 0, 3}).unbind();
    at::Tensor y =
        modules::attention(parts[0], parts[1], parts[2], {.is_causal = true, .offsets = tokens});
    return head(x + y.transpose(0, 1).flatten(1));
  }
};
TORCH_MODULE(LanguageModel);

TEST_CASE("docs/data.md: token files, and packed documents") {
  const TokenFolder made;
  const std::filesystem::path folder = made.path;

  TokenFiles text{folder / "train_*.bin", {.length = 64, .stride = 1, .vocab_size = 256}};
  DataLoader loader{text, {.batch_size = 12, .shuffle = true, .num_workers = 1}};

  Trainer trainer{LanguageModel(), CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  for (auto& batch : loader) {
    trainer.step(batch);
    if (trainer.steps() == 20) break;
  }
  CHECK(trainer.steps() == 20);

  PackedTokenFiles documents{folder / "train_*.bin", /*end_of_text=*/255, {.length = 64}};
  DataLoader packed{documents, {.batch_size = 12, .shuffle = true}};
  Trainer apart{LanguageModel(), CrossEntropyLoss{}, AdamW{.lr = 1e-2}};
  for (PackedBatch& batch : packed) apart.step(batch);

  CHECK(apart.steps() == packed.size());
}

TEST_CASE("docs/data.md: workers that are chosen, and what a loop waits for") {
  TensorDataset dataset(at::randn({64, 3}), at::randn({64, 1}));
  DataLoader loader{dataset, {.batch_size = 8, .num_workers = automatic}};
  for (auto& batch : loader) (void)batch;
  std::string text = loader.describe();
  CHECK(contains(text, "8 batches per epoch of 8, in order; next is epoch 1, batch 0"));
}

struct Images {
  std::int64_t size() const { return 100; }
  std::pair<at::Tensor, std::int64_t> get(std::int64_t i) const {
    return {at::full({1}, double(i)), i % 4};
  }
};
struct Sentences {
  std::int64_t size() const { return 100; }
  Ragged get(std::int64_t i) const { return Ragged{{at::arange(1 + i % 9)}}; }
};

TEST_CASE("docs/samplers.md") {
  Images images;
  Sentences documents;
  at::Tensor labels = at::arange(100) % 4;
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < 100; ++i) lengths.push_back(1 + i % 9);

  WeightedSampler balanced(balanced_weights(labels));
  DataLoader even{images, {.batch_size = 16, .sampler = balanced}};

  DataLoader full{documents, {.sampler = PackedSampler{lengths, /*max_tokens=*/64}}};

  auto parts = stratified_split(labels, {0.9, 0.1}, /*seed=*/0);
  DataLoader train{Subset{&images, parts[0]}, {.batch_size = 16, .shuffle = true}};
  DataLoader held_out{Subset{&images, parts[1]}, {.batch_size = 16}};

  ConcatDataset all{Images(), Images()};
  MixtureSampler mixture{all.sizes(), {0.9, 0.1}};
  DataLoader mixed{all, {.batch_size = 16, .sampler = mixture}};

  auto numbers = [](std::int64_t epoch) { return std::views::iota(10 * epoch, 10 * epoch + 9); };
  auto to_sample = [](std::int64_t number) { return at::full({1}, double(number)); };
  StreamLoader stream{numbers, {.batch_size = 4, .shuffle_buffer = 5}, to_sample};
  for (at::Tensor& batch : stream) CHECK(batch.size(1) == 1);

  CHECK(even.size() == 7);
  CHECK(full.size() == 8);
  CHECK(train.size() + held_out.size() == 7);
  CHECK(mixed.size() == 13);
  CHECK(stream.epoch() == 1);
}

struct EverySecond {
  std::int64_t size(std::int64_t samples) const { return samples / 2; }
  std::int64_t index(std::int64_t position, const SampledEpoch&) const { return 2 * position; }
};

TEST_CASE("docs/samplers.md: a sampler of one's own") {
  TensorDataset dataset(at::randn({64, 3}), at::randn({64, 1}));
  DataLoader loader{dataset, {.batch_size = 8, .sampler = EverySecond{}}};
  CHECK(loader.size() == 4);
}

}  // namespace test::docs::data_files
