// Compiles and runs the code of docs/memory_tools.md.
#include "test.hpp"

#include <ikebana.hpp>
#include <ikebana/memory/in_place.hpp>
#include <ikebana/memory/pool.hpp>
#include <ikebana/memory/unit_labels.hpp>
#include <iostream>

#include "../../examples/models/gpt.hpp"

using namespace ikebana;

namespace docs::memory_tools {

const GPTConfig config{.layers = 2, .width = 16, .heads = 2, .context = 8};

TEST_CASE("memory_tools.md: a training takes its memory from a pool") {
  torch::manual_seed(0);
  std::vector<Tokens> loader(4, random_batch(config, 4, 8));
  Trainer trainer{GPT(config), AdamW{}};

  MemPool pool;
  for (const Tokens& batch : loader) {
    UseMemPool use(pool);
    trainer.step(batch);
  }
  std::cout << pool.hits() << " of " << pool.hits() + pool.misses() << " from kept memory\n";
  pool.trim();

  CHECK(pool.hits() > pool.misses());
}

TEST_CASE("memory_tools.md: who saved what a write in place would change") {
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());
  const at::Tensor x = at::randn({8, 16}), weight = at::randn({4, 16}).requires_grad_();

  InPlaceChecker checker;
  at::Tensor hidden = at::linear(x, weight);
  at::Tensor loss = hidden.sigmoid().mul(hidden).sum();
  std::cout << checker.explain(hidden) << '\n';

  std::cout.rdbuf(terminal);
  CHECK(lines.str() ==
        "a write in place breaks backward:\n"
        "  aten::mul saved Float[8, 4] on cpu: backward will throw\n");
}

TEST_CASE("memory_tools.md: a write in place that throws, in a trainer") {
  const Tokens batch = random_batch(config, 4, 8);
  auto objective = [](auto& run, GPT& model, const Tokens& tokens) {
    Loss loss = model->loss(run, tokens);
    at::NoGradGuard no_grad;
    model->parameters()[2].mul_(0.99);
    return loss;
  };

  InPlaceChecker checker({.on_write = OnWrite::Throw});
  Trainer trainer{GPT(config), AdamW{}, objective, LabelUnits{}};

  const auto text = test::message_of<InPlaceError>([&] { trainer.step(batch); });
  CHECK(test::contains(text, "InPlaceChecker: aten::mul_"));
  CHECK(test::contains(text, "writes in place to memory that backward still"));
  CHECK(test::contains(text, "saved Float[16] on cpu in block0: backward will throw"));
}

}  // namespace docs::memory_tools
