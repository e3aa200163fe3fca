// Compiles and runs the code that docs/capture.md shows.
#include "classes.hpp"

#include <ikebana/capture.hpp>

namespace test::capture_page {

using namespace policies;

TEST_CASE("docs/capture.md: steps are recorded, and replayed from then on") {
  auto model = net();
  auto loader = classes(8);
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());

  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3}, Capture<WholeStep>{}};
  for (const auto& batch : loader) trainer.step(batch);
  std::cout << trainer.tape();

  const auto& capture = trainer.mechanism<Capture<WholeStep>>();
  std::cout << capture.recordings() << " recorded, " << capture.replays() << " replayed\n";

  std::cout.rdbuf(terminal);
  CHECK(test::contains(lines.str(), "addmm(0.bias, input, 0.weight.t)  # Float[12, 16]"));
  CHECK(test::contains(lines.str(), "2 recorded, 4 replayed"));
}

TEST_CASE("docs/capture.md: a step that cannot be recorded runs as without Capture") {
  auto model = net();
  const Rows batch = classes(1)[0];

  Trainer trainer{model, CrossEntropyLoss{}, AdamW{.lr = 1e-3},
                  Capture<WholeStep>{.tapes = 32, .on_refusal = OnRefusal::Eager}};

  CHECK(trainer.step(batch).loss() > 0);
}

TEST_CASE("docs/capture.md: a count that only the data knows is a tensor") {
  auto model = net();
  auto objective = [](auto& run, nn::Sequential& net, const Rows& batch) {
    at::Tensor logits = run(net, batch.input);
    at::Tensor sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum);
    return Loss{.sum = sum, .count = (batch.target != -100).sum(), .outputs = logits};
  };
  Trainer trainer{model, objective, AdamW{.lr = 1e-3}, Capture<WholeStep>{}};
  auto loader = classes(6);
  for (std::int64_t i = 0; i < 6; ++i) {
    loader[std::size_t(i)].target.narrow(0, 0, i).fill_(-100);
    CHECK(trainer.step(loader[std::size_t(i)]).count() == 12 - i);
  }
  CHECK(trainer.mechanism<Capture<WholeStep>>().replays() == 2);
}

struct ResidualBlockImpl : nn::Module {
  nn::Linear linear = register_module("linear", nn::Linear(16, 16));
  at::Tensor forward(const at::Tensor& x) { return x + at::gelu(linear(x)); }
};
TORCH_MODULE(ResidualBlock);
struct ResidualNetImpl : nn::Module {
  using units = Units<ResidualBlock>;
  nn::Linear stem = register_module("stem", nn::Linear(4, 16));
  nn::Linear head = register_module("head", nn::Linear(16, 3));
  std::vector<ResidualBlock> blocks;
  ResidualNetImpl() {
    for (int i = 0; i < 4; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), ResidualBlock()));
  }
};
TORCH_MODULE(ResidualNet);

TEST_CASE("docs/capture.md: units are replayed, and the host decides which") {
  torch::manual_seed(0);
  ResidualNet model;
  auto objective = [](auto& run, ResidualNet& net, const Rows& batch) {
    at::Tensor x = net->stem(batch.input);
    for (auto& block : net->blocks)
      if (at::rand({}).item<double>() > 0.2) x = run(block, x);  // layers are dropped at random
    at::Tensor logits = net->head(x);
    return Loss{at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
                batch.input.size(0)};
  };
  Trainer trainer{model, objective, AdamW{.lr = 1e-3}, Capture<EachUnit>{}};
  for (const auto& batch : classes(20)) trainer.step(batch);
  const auto& capture = trainer.mechanism<Capture<EachUnit>>();
  CHECK(capture.recordings() == 8);
  CHECK(capture.replays() > 30);
  CHECK(capture.usual_calls() == 0);
}

}  // namespace test::capture_page
