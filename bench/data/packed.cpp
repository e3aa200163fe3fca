// Measures training on documents of different lengths, one thread: padded to the longest of a
// batch, in buckets of about the same length, and packed without padding. The documents are the
// speeches of a text file that is given as an argument (parts between blank lines), else bytes with
// lengths like them. Checks first that each document has the loss that it has alone. Writes a
// Markdown table of the time for all documents over that of padded batches: medians of interleaved
// rounds.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <ikebana.hpp>
#include <ikebana/data.hpp>
#include <ikebana/modules/attention.hpp>

#include "../conditions.hpp"

namespace {

using namespace ikebana;

constexpr std::int64_t context = 1024, width = 128, heads = 4, layers = 4, documents = 96;

struct BlockImpl : torch::nn::Module {
  torch::nn::LayerNorm norm1 = register_module("norm1", layer_norm());
  torch::nn::LayerNorm norm2 = register_module("norm2", layer_norm());
  torch::nn::Linear qkv = register_module("qkv", torch::nn::Linear(width, 3 * width));
  torch::nn::Linear out = register_module("out", torch::nn::Linear(width, width));
  torch::nn::Linear up = register_module("up", torch::nn::Linear(width, 4 * width));
  torch::nn::Linear down = register_module("down", torch::nn::Linear(4 * width, width));

  static torch::nn::LayerNorm layer_norm() {
    return torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}));
  }
  /// Takes (..., tokens, width).
  at::Tensor forward(at::Tensor x, const modules::DocumentOffsets& offsets) {
    const auto parts = qkv(norm1(x)).unflatten(-1, {3, heads, -1}).transpose(-4, -2).unbind(-3);
    const at::Tensor y =
        modules::attention(parts[0], parts[1], parts[2], {.is_causal = true, .offsets = offsets});
    x = x + out(y.transpose(-3, -2).flatten(-2));
    return x + down(at::gelu(up(norm2(x))));
  }
};
TORCH_MODULE(Block);

struct LanguageModelImpl : torch::nn::Module {
  torch::nn::Embedding token = register_module("token", torch::nn::Embedding(256, width));
  torch::nn::Embedding position = register_module("position", torch::nn::Embedding(context, width));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(width, 256));
  std::vector<Block> blocks;

  LanguageModelImpl() {
    for (std::int64_t i = 0; i < layers; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
  }
  at::Tensor compute(at::Tensor x, const modules::DocumentOffsets& offsets) {
    for (Block& block : blocks) x = block(x, offsets);
    return head(x);
  }
  at::Tensor forward(const Ragged& tokens) {
    return compute(token(tokens.values()) + position(tokens.positions()), tokens);
  }
  at::Tensor forward(const at::Tensor& tokens) {
    const at::Tensor places = at::arange(tokens.size(1), at::kLong);
    // (rows, classes, length)
    return compute(token(tokens) + position(places), {}).transpose(1, 2);
  }
};
TORCH_MODULE(LanguageModel);

struct Rows {
  at::Tensor input, target;
};
struct Packed {
  Ragged input, target;
};

std::vector<at::Tensor> speeches(const char* path) {
  std::vector<at::Tensor> all;
  if (path == nullptr) {
    torch::manual_seed(3);
    for (std::int64_t i = 0; i < documents; ++i) {
      const double length = std::exp(4.5 + 1.1 * at::randn({}).item<double>());
      all.push_back(
          at::randint(97, 123, {std::clamp<std::int64_t>(std::int64_t(length), 2, 1000)}));
    }
    return all;
  }
  std::ifstream file(path);
  std::string speech, line;
  while (std::ssize(all) < documents && std::getline(file, line)) {
    if (!line.empty()) {
      speech += line + "\n";
      continue;
    }
    speech.resize(std::min<std::size_t>(speech.size(), context));
    if (speech.size() > 1)
      all.push_back(at::tensor(std::vector<std::int64_t>(speech.begin(), speech.end())) & 255);
    speech.clear();
  }
  return all;
}

/// The speeches as samples of one of the two kinds.
struct ToPad {
  const std::vector<at::Tensor>* all;
  std::int64_t size() const { return std::ssize(*all); }
  Rows get(std::int64_t i) const {
    const at::Tensor& speech = (*all)[std::size_t(i)];
    return {speech.slice(0, 0, -1), speech.slice(0, 1)};
  }
};
struct ToPack {
  const std::vector<at::Tensor>* all;
  std::int64_t size() const { return std::ssize(*all); }
  Packed get(std::int64_t i) const {
    const at::Tensor& speech = (*all)[std::size_t(i)];
    return {Ragged{{speech.slice(0, 0, -1)}}, Ragged{{speech.slice(0, 1)}}};
  }
};

LanguageModel model() {
  torch::manual_seed(1);
  return LanguageModel();
}

/// Returns the largest difference between a document's loss within a batch and alone, relative.
double worst_difference(ToPack data) {
  LanguageModel net = model();
  const at::NoGradGuard no_grad;
  DataLoader loader(data, {.batch_size = 16});
  double worst = 0;
  const auto loss = [](const at::Tensor& logits, const at::Tensor& target) {
    return at::cross_entropy_loss(logits, target).item<double>();
  };
  for (auto& batch : loader) {
    const Ragged logits(net->forward(batch.input), batch.input.offsets());
    for (std::int64_t i = 0; i < batch.input.size(); ++i) {
      const double alone = loss(net->forward(batch.input.narrow(i, 1)), batch.target[i]);
      worst = std::max(worst, std::abs(loss(logits[i], batch.target[i]) / alone - 1));
    }
    if (loader.position().batch == 8) break;
  }
  return worst;
}

/// Returns the seconds of an epoch. `batches` is a loader.
template <class Loader>
double seconds(Loader loader) {
  Trainer trainer(model(), CrossEntropyLoss{}, AdamW{.lr = 1e-4});
  const auto begin = std::chrono::steady_clock::now();
  for (auto& batch : loader) trainer.step(batch);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  constexpr int rounds = 3;
  const auto all = speeches(argc > 1 ? argv[1] : nullptr);
  std::vector<std::int64_t> lengths;
  std::int64_t tokens = 0, longest = 0;
  for (const auto& speech : all) {
    lengths.push_back(speech.size(0) - 1);
    tokens += lengths.back(), longest = std::max(longest, lengths.back());
  }
  bench::print_conditions("", rounds);
  std::printf("\n%zd documents of %ld bytes on average, %ld at most\n", std::ssize(all),
              tokens / std::ssize(all), longest);
  const double worst = worst_difference({&all});
  std::printf("a document's loss differs from its loss alone by %.1e at most\n", worst);
  if (!(worst <= 1e-6)) return 1;
  const PadCollate<Rows> pads{{{&Rows::input, 0}, {&Rows::target, -100}}};
  const std::int64_t most = 16 * tokens / std::ssize(all);
  const Sampler buckets = BucketSampler(lengths, {.batch_size = 16});
  const Sampler packed = PackedSampler(lengths, std::max(most, longest));
  const DataLoaderOptions random{.batch_size = 16, .shuffle = true};
  const std::pair<const char*, std::function<double()>> ways[] = {
      {"padded", [&] { return seconds(DataLoader(ToPad{&all}, random, pads)); }},
      {"padded, buckets by length",
       [&] { return seconds(DataLoader(ToPad{&all}, {.sampler = buckets}, pads)); }},
      {"packed", [&] { return seconds(DataLoader(ToPack{&all}, random)); }},
      {"packed, PackedSampler",
       [&] { return seconds(DataLoader(ToPack{&all}, {.sampler = packed})); }}};
  std::vector<std::vector<double>> times(std::size(ways)), ratios(std::size(ways));
  for (int round = 0; round < rounds; ++round)
    for (std::size_t w = 0; w < std::size(ways); ++w) {
      times[w].push_back(ways[w].second());
      ratios[w].push_back(times[w].back() / times[0].back());
    }
  std::puts("\n| batches | seconds | time over padded |\n|---|---:|---:|");
  for (std::size_t w = 0; w < std::size(ways); ++w)
    std::printf("| %s | %.2f | %.2f |\n", ways[w].first, bench::median(times[w]),
                bench::median(ratios[w]));
}
