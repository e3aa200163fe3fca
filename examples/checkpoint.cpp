// Trains with every choice of Checkpoint and compares: the losses have the same bits, and only the
// memory differs.
// ctest:
#include <torch/torch.h>

#include <ikebana.hpp>
#include <iostream>
using namespace ikebana;
namespace nn = torch::nn;

constexpr std::int64_t width = 64;

struct BlockImpl : nn::Module {
  nn::LayerNorm norm = register_module("norm", nn::LayerNorm(nn::LayerNormOptions({width})));
  nn::Linear up = register_module("up", nn::Linear(width, 4 * width));
  nn::Linear down = register_module("down", nn::Linear(4 * width, width));
  nn::Dropout drop = register_module("drop", nn::Dropout(0.1));
  at::Tensor forward(const at::Tensor& x) { return x + drop(down(at::gelu(up(norm(x))))); }
};
TORCH_MODULE(Block);

struct NetImpl : nn::Module {
  using units = Units<Block>;
  std::vector<Block> blocks;
  nn::Linear head = register_module("head", nn::Linear(width, 10));
  NetImpl() {
    for (int i = 0; i < 9; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
  }
  template <class Run>
  at::Tensor forward(Run& run, at::Tensor x) {
    for (Block& block : blocks) x = run(block, x);
    return head(x);
  }
};
TORCH_MODULE(Net);

/// Returns the loss of the fifth step, and its peak memory in bytes.
template <class Policy>
std::pair<double, std::int64_t> train(Policy policy) {
  torch::manual_seed(0);
  Trainer trainer{Net(), CrossEntropyLoss{}, policy, Observe<Memory>{}};
  std::pair batch{torch::randn({512, width}), torch::randint(10, {512})};
  Report report;
  for (int i = 0; i < 5; ++i) report = trainer.step(batch);
  return {report.loss(), *report.peak_bytes};
}

int main() {
  const auto [loss, peak] = train(Checkpoint<Off>{});
  bool same = true;
  auto compare = [&, l = loss, p = peak](const char* name, auto policy) {
    auto [its_loss, its_peak] = train(policy);
    same = same && its_loss == l;
    std::cout << name << "  loss " << its_loss << "  peak " << its_peak * 100 / p << " %\n";
  };
  compare("Full        ", Checkpoint<Full>{});
  compare("Selective   ", Checkpoint<Selective>{});
  compare("Every<2>    ", Checkpoint<Every<2>>{});
  compare("Segments<3> ", Checkpoint<Segments<3>>{});
  compare("Segments<>  ", Checkpoint<Segments<>>{});
  compare("Only<Block> ", Checkpoint<Only<Block>>{});

  // Rules of one's own: which operators are kept, which units are computed again.
  Checkpoint<Selective> products{.keep = operators({"aten::addmm", "aten::native_layer_norm"})};
  Checkpoint<Only<>> late{.match = [](const Unit& unit) { return unit.name > "block4"; }};
  compare("two kept    ", products);
  compare("late ones   ", late);

  // The fastest choice for each unit within so many bytes.
  compare("Budget      ", Checkpoint<Budget<>>{.limit = GiB(1)});
  compare("activations ", Checkpoint<ActivationBudget<>>{.limit = MiB(2)});
  return same ? 0 : 1;
}
