// Compiles and runs the code that README and pages of docs show beyond the examples.
#include "test.hpp"

#include <ikebana/estimate.hpp>
#include <ikebana/optimizer/libtorch_optimizer.hpp>

#include <iostream>

#include "../../examples/models/gpt.hpp"

using namespace ikebana;

TEST_CASE("README: a recipe written as a type trains") {
  torch::manual_seed(0);
  GPTConfig config{.layers = 2, .width = 16, .heads = 2, .context = 8};
  at::Tensor text = torch::randint(256, {16, 9});
  std::vector<Tokens> loader(40, {text.slice(1, 0, 8), text.slice(1, 1, 9)});
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());

  using Recipe =
      Trainer<GPT, AdamW, Precision<BF16>, Checkpoint<Full>, Accumulate<8>, ClipGradNorm>;

  Recipe trainer{GPT(config), AdamW{.lr = 3e-4}};
  for (auto& batch : loader) std::cout << trainer.step(batch) << '\n';

  std::cout.rdbuf(terminal);
  CHECK(trainer.steps() == 40);
  CHECK(test::contains(lines.str(), "grad norm"));
  CHECK(trainer.evaluate(loader).loss < 5.4);  // it started at ln 256 = 5.55
}

TEST_CASE("memory.md: an estimate of 6.4 billion parameters") {
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());

  using Recipe = Trainer<GPT, AdamW, Checkpoint<Full>>;
  GPTConfig config{.layers = 32, .width = 4096, .heads = 32, .context = 2048};
  auto tokens = [] { return at::empty({1, 2048}, at::TensorOptions(at::kMeta).dtype(at::kLong)); };
  std::cout << estimate<Recipe>([&] { return GPT(config); }, Tokens{tokens(), tokens()});

  std::cout.rdbuf(terminal);
  CHECK(test::contains(lines.str(), "16.00 bytes per parameter"));
  CHECK(test::contains(lines.str(), "block0 .. block31, each of 32"));
}

TEST_CASE("optimizer.md: Muon updates hidden matrices, and AdamW the others") {
  Muon muon{.lr = 2e-2,
            .match = matrices_but({"token.*", "position.*"}),
            .otherwise = AdamW{.lr = 3e-4, .groups = {no_decay()}}};

  GPTConfig config{.layers = 1, .width = 16, .heads = 2, .context = 8};
  at::Tensor text = torch::randint(256, {16, 9});
  Trainer trainer{GPT(config), muon};
  trainer.step(Tokens{text.slice(1, 0, 8), text.slice(1, 1, 9)});
  auto state = trainer.state();
  CHECK(state.count("ikebana.Muon.otherwise.token.weight.exp_avg") == 1);
  CHECK(state.count("ikebana.Muon.block0.qkv.weight.momentum_buffer") == 1);
}

TEST_CASE("optimizer.md: Lion instead of AdamW for what Muon does not update") {
  Combined<Muon, Lion> both{.first = {.lr = 2e-2, .match = matrices_but({"token.*", "position.*"})},
                            .rest = {.lr = 1e-4, .groups = {no_decay()}}};

  GPTConfig config{.layers = 1, .width = 16, .heads = 2, .context = 8};
  at::Tensor text = torch::randint(256, {16, 9});
  Trainer trainer{GPT(config), both};
  trainer.get<Combined<Muon, Lion>>().rest.lr = 3e-5;
  trainer.step(Tokens{text.slice(1, 0, 8), text.slice(1, 1, 9)});
  auto state = trainer.state();
  CHECK(state.count("ikebana.Combined<Muon, Lion>.rest.token.weight.exp_avg") == 1);
  CHECK(state.count("ikebana.Combined<Muon, Lion>.first.block0.qkv.weight.momentum_buffer") == 1);
}

TEST_CASE("optimizer.md: an optimizer of torch::optim") {
  torch::nn::Linear model(4, 3);

  using RMSprop = LibTorchOptimizer<torch::optim::RMSprop>;
  Trainer trainer{
      model, CrossEntropyLoss{},
      RMSprop{.options = torch::optim::RMSpropOptions(1e-3).momentum(0.9), .groups = {no_decay()}}};

  trainer.get<RMSprop>().options.lr(1e-4);
  std::pair<at::Tensor, at::Tensor> batch{torch::randn({6, 4}), torch::randint(3, {6})};
  CHECK(trainer.step(batch).learning_rate == 1e-4);
  auto state = trainer.state();
  CHECK(state.count("ikebana.LibTorchOptimizer<torch::optim::RMSprop>.bias.square_avg") == 1);
}
