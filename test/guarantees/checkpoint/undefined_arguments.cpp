// A tensor that is not there, as an optional mask, passes through `run` as an argument and as a
// result, whatever policies wrap the unit.
#include "guarantees/guarantees.hpp"

namespace guarantees::undefined_arguments {

/// A batch whose mask and bias may be missing.
struct Masked {
  at::Tensor input, mask, target;
};
struct Extras {
  at::Tensor mask;
  std::vector<at::Tensor> biases;
};
/// The result of a block: its output, and statistics if there is a mask.
struct Out {
  at::Tensor x, statistics;
};

struct BlockImpl : torch::nn::Module {
  torch::nn::Linear in{8, 16}, out{16, 8};
  torch::nn::Dropout drop{0.2};
  BlockImpl() {
    register_module("in", in), register_module("out", out), register_module("d", drop);
  }
  Out forward(const at::Tensor& before, const Out& last, const Extras& extras) {
    if (before.defined()) throw std::runtime_error("a tensor was made of none");
    at::Tensor hidden = at::gelu(in(last.x));
    for (const at::Tensor& bias : extras.biases)
      if (bias.defined()) hidden = hidden + bias;
    if (extras.mask.defined()) hidden = hidden * extras.mask;
    if (last.statistics.defined()) hidden = hidden * last.statistics;
    const at::Tensor x = last.x + drop(out(hidden));
    return {x, extras.mask.defined() ? at::sigmoid(x.mean()) : at::Tensor()};
  }
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  using units = Units<Block>;
  torch::nn::Linear embed = register_module("embed", torch::nn::Linear(4, 8));
  std::vector<Block> blocks;
  torch::nn::Linear head = register_module("head", torch::nn::Linear(8, 3));
  NetImpl() {
    for (int i = 0; i < 4; ++i)
      blocks.push_back(register_module("block" + std::to_string(i), Block()));
  }
  template <class Run>
  Loss loss(Run& run, const Masked& batch) {
    Out last{embed(batch.input), {}};
    const Extras extras{batch.mask, {at::Tensor(), batch.mask}};
    for (Block& block : blocks) last = run(block, at::Tensor(), last, extras);
    const at::Tensor logits = head(last.x);
    return {.sum = at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            .count = batch.target.numel(),
            .outputs = logits};
  }
};
TORCH_MODULE(Net);

/// Returns batches without a mask, and one with a mask.
std::vector<Masked> data() {
  std::vector<Masked> all;
  for (const Rows& rows : class_batches(4, 6, 4, 3))
    all.push_back({rows.input, all.size() == 2 ? torch::rand({6, 16}) : at::Tensor(), rows.target});
  return all;
}
template <class... Policies>
Trace by(const Policies&... policies) {
  return trained(Trainer{seeded([] { return Net(); }), AdamW{.lr = 1e-2}, policies...}, data());
}
/// Returns only the losses of a recipe that stores parameters elsewhere.
template <class... Policies>
std::vector<double> losses(const Policies&... policies) {
  Trainer trainer{seeded([] { return Net(); }), AdamW{.lr = 1e-2}, policies...};
  torch::manual_seed(11);
  std::vector<double> all;
  for (const Masked& batch : data()) all.push_back(trainer.step(batch).loss());
  return all;
}
template <class... Policies>
void same(const char* name, const Policies&... policies) {
  CAPTURE(name);
  CHECK(test::message_of([&] { CHECK(test::same_bits(by(policies...), by())); }) == "");
}

TEST_CASE("undefined arguments: every checkpoint passes them through, with the same bits") {
  CHECK(moved(by(), 4));
  same("Full", Checkpoint<Full>{});
  same("Selective", Checkpoint<Selective>{});
  same("Every", Checkpoint<Every<2>>{});
  same("Segments", Checkpoint<Segments<2>>{});
  same("Only", Checkpoint<Only<Block>>{});
  same("Budget", Checkpoint<Budget<>>{.limit = std::int64_t{1} << 30});
  same("ActivationBudget", Checkpoint<ActivationBudget<>>{.limit = 2500});
}

TEST_CASE("undefined arguments: other policies that wrap a unit pass them through") {
  same("Activations", Offload<CPU, Activations>{.min_bytes = 1});
  CHECK(losses(Offload<CPU>{}, Checkpoint<Full>{}) == losses());
  same("Memory", Observe<Memory>{.by_unit = true}, Checkpoint<Segments<>>{});
  const Trace plain = by(Precision<BF16Weights>{});
  CHECK(test::same_bits(by(Precision<BF16Weights>{}, Checkpoint<Full>{}), plain));
  CHECK(test::same_bits(by(Precision<BF16Weights>{}, Checkpoint<Segments<>>{}), plain));
}

TEST_CASE("undefined arguments: they are evaluated, and updated in backward") {
  auto model = seeded([] { return Net(); });
  Trainer trainer{model, Checkpoint<Full>{}, InBackward<AdamW>{}};
  for (const Masked& batch : data()) trainer.step(batch);
  CHECK(std::isfinite(trainer.evaluate(data()).loss));
}

}  // namespace guarantees::undefined_arguments
