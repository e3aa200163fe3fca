// Compiles and runs the recipes of docs/recipes.md.
#include "classes.hpp"

#include "../../examples/models/gpt.hpp"
#include "../../examples/models/lstm.hpp"

namespace test::docs_recipes {

using namespace ikebana;
using test::policies::classes, test::policies::net, test::policies::Rows;
namespace nn = torch::nn;

const GPTConfig config{.layers = 2, .width = 16, .heads = 2, .context = 8};
const std::int64_t steps = 100;

/// Two steps; the second one's loss is finite, or it would throw.
template <class T, class Batch>
void trains(T& trainer, const Batch& batch) {
  trainer.step(batch), trainer.step(batch);
  CHECK(trainer.steps() == 2);
}
nn::Sequential convolutions() {
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(3, 8, 3)), nn::ReLU(),
                        nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions(1)), nn::Flatten(),
                        nn::Linear(8, 3));
}

TEST_CASE("recipes.md: an MLP") {
  nn::Sequential model = net();
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3, .groups = {no_decay()}},
                  CosineAnnealingLR{.T_max = steps, .warmup_steps = steps / 20}};
  trains(trainer, classes()[0]);
}

TEST_CASE("recipes.md: a convolutional network") {
  nn::Sequential model = convolutions();
  Trainer trainer{model, CrossEntropyLoss{.label_smoothing = 0.1},
                  SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 5e-4, .groups = {no_decay()}},
                  OneCycleLR{.max_lr = 0.1, .total_steps = steps}, Layout<ChannelsLast>{}};
  trains(trainer, Rows{at::randn({4, 3, 8, 8}), at::randint(3, {4}, at::kLong)});
}

TEST_CASE("recipes.md: a transformer") {
  Trainer trainer{
      GPT(config),
      AdamW{.lr = 3e-4, .betas = {0.9, 0.95}, .weight_decay = 0.1, .groups = {no_decay()}},
      CosineAnnealingLR{.T_max = steps, .warmup_steps = steps / 50}, ClipGradNorm{},
      Precision<BF16>{}};
  trains(trainer, random_batch(config, 4, 8));
}

TEST_CASE("recipes.md: a recurrent network") {
  const LSTMConfig sizes{.vocabulary = 16, .layers = 2, .width = 16};
  Trainer trainer{LSTMLanguageModel(sizes), AdamW{.lr = 1e-3}, ClipGradNorm{.max_norm = 0.25},
                  ReduceLROnPlateau{.patience = 2}};
  trains(trainer, random_batch(sizes, 4, 8));
}

TEST_CASE("recipes.md: sparse embeddings") {
  nn::Sequential model(nn::EmbeddingBag(nn::EmbeddingBagOptions(100, 8).sparse(true)),
                       nn::Linear(8, 3));
  Trainer trainer{model, CrossEntropyLoss{},
                  SparseAdam{.lr = 1e-3, .otherwise = AdamW{.lr = 1e-3}}};
  trains(trainer, Rows{at::randint(100, {12, 5}, at::kLong), at::randint(3, {12}, at::kLong)});
}

TEST_CASE("recipes.md: fine-tuning of a large model") {
  Trainer trainer{GPT(config),        AdamW8bit{.lr = 1e-5}, Precision<BF16Weights>{},
                  Checkpoint<Full>{}, Accumulate<4>{},       ClipGradNorm{}};
  trains(trainer, random_batch(config, 4, 8));
}

TEST_CASE("recipes.md: whatever fits") {
  Trainer trainer{GPT(config), AdamW{.lr = 3e-4}, Checkpoint<Budget<>>{.limit = GiB(8)},
                  Accumulate<Fit<>>{.max = 4}};
  trains(trainer, random_batch(config, 4, 8));
}

TEST_CASE("slow.md: where the time of a step goes") {
  auto model = net();
  auto loader = classes();
  std::ostringstream out;
  auto* const former = std::cout.rdbuf(out.rdbuf());
  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}};

  for (const auto& batch : loader) {
    Report report = trainer.step(batch);
    std::cout << report << "  " << report.seconds << " s\n";
  }

  std::cout.rdbuf(former);
  CHECK(out.str().find("  loss ") != std::string::npos);
}

/// This is only compiled. test/gpu trains on a GPU.
[[maybe_unused]] void on_a_gpu() {
  Trainer trainer{GPT(config), AdamW{.lr = 3e-4}, Precision<BF16>{}, On{torch::kCUDA}};
  trains(trainer, random_batch(config, 4, 8));
}

}  // namespace test::docs_recipes
