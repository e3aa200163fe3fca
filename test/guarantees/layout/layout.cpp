// Guarantees of Layout<ChannelsLast>: what lies in which order in memory, that values do not depend
// on it, and that saved states are read in either layout.
#include "guarantees/guarantees.hpp"

namespace guarantees::layout {

struct Seen {
  int images = 0, contiguous_images = 0;
};

/// A convolution with batch norm, added to its input. A bias before batch norm has no gradient but
/// rounding, which some optimizers would enlarge.
struct BlockImpl : torch::nn::Module {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(4, 4, 3).padding(1).bias(false)};
  torch::nn::BatchNorm2d norm{4};
  BlockImpl() { register_module("conv", conv), register_module("norm", norm); }
  at::Tensor forward(const at::Tensor& x) { return x + at::relu(norm(conv(x))); }
};
TORCH_MODULE(Block);

struct NetImpl : torch::nn::Module {
  using units = Units<Block>;
  torch::nn::Conv2d first{torch::nn::Conv2dOptions(3, 4, 3).padding(1)};
  Block block;
  torch::nn::Linear head{4, 5};
  at::Tensor shift = torch::linspace(0, 1, 4 * 3 * 3, at::kDouble).view({1, 4, 3, 3});
  Seen* seen;
  explicit NetImpl(Seen* counts) : seen(counts) {
    register_module("first", first), register_module("block", block);
    register_module("head", head), register_buffer("shift", shift);
    to(at::kDouble);
  }
  template <class Run>
  Loss loss(Run& run, const Rows& batch) {
    const bool last = batch.input.is_contiguous(at::MemoryFormat::ChannelsLast);
    last ? ++seen->images : ++seen->contiguous_images;
    at::Tensor x = run(block, at::relu(first(batch.input)));
    CHECK(x.is_contiguous(at::MemoryFormat::ChannelsLast) == last);
    at::Tensor logits = head((x + at::adaptive_avg_pool2d(shift, {1, 1})).mean({2, 3}));
    return {at::cross_entropy_loss(logits, batch.target, {}, at::Reduction::Sum),
            batch.target.numel(), logits};
  }
};
TORCH_MODULE(Net);

Net net(Seen* seen) {
  return seeded([&] { return Net(seen); });
}
std::vector<Rows> images(int steps) {
  torch::manual_seed(5);
  std::vector<Rows> batches;
  for (int i = 0; i < steps; ++i)
    batches.push_back({torch::randn({6, 3, 7, 5}, at::kDouble), torch::randint(5, {6}, at::kLong)});
  return batches;
}
bool lies_last(const at::Tensor& t) {
  return t.dim() != 4 || (t.is_contiguous(at::MemoryFormat::ChannelsLast) && !t.is_contiguous());
}

TEST_CASE("layout: parameters, buffers, moments, batches and activations lie channels last") {
  Seen seen;
  Net model = net(&seen);
  const auto before = parameters_of(model);
  Trainer trainer{model, AdamW{}, EMA{}, Layout<ChannelsLast>{}, Accumulate<2>{}};
  const auto after = model->parameters();
  for (std::size_t i = 0; i < after.size(); ++i) {
    CHECK(lies_last(after[i]));
    CHECK(test::same_bits(after[i], before[i]));
  }
  CHECK(lies_last(model->shift));
  const auto data = images(2);
  for (const Rows& batch : data) trainer.step(batch);
  trainer.evaluate(data);
  CHECK(seen.images == 6);
  CHECK(seen.contiguous_images == 0);
  int moments = 0;
  for (const auto& [name, tensor] : trainer.state()) {
    if (tensor.dim() != 4) continue;
    CHECK(lies_last(tensor));
    ++moments;
  }
  CHECK(moments == 2 * 4 + 1);           // each weight, its average, two moments; one buffer
  CHECK(data[0].input.is_contiguous());  // the caller's batch stays as it is
}

TEST_CASE("layout: a recipe without it copies nothing and leaves tensors as they are") {
  Seen seen;
  Net model = net(&seen);
  Trainer trainer{model, AdamW{}};
  trainer.step(images(1)[0]);
  CHECK(seen.contiguous_images == 1);
  CHECK_FALSE(lies_last(model->first->weight));
  trainer.step(
      Rows{images(1)[0].input.contiguous(at::MemoryFormat::ChannelsLast), images(1)[0].target});
  CHECK(seen.images == 1);  // as the caller has it
}

using Optimizers = Choices<AdamW, Adam, SGD, Adagrad, Adafactor, Lion, Muon>;

TEST_CASE("layout: values differ from those of contiguous tensors by rounding, in all optimizers") {
  Optimizers::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Seen seen;
    Policy policy{};
    policy.lr = 1e-2;
    const auto plain = trained(Trainer{net(&seen), policy, ClipGradNorm{}}, images(4));
    const auto last =
        trained(Trainer{net(&seen), policy, ClipGradNorm{}, Layout<ChannelsLast>{}}, images(4));
    CHECK(moved(last, 4));
    REQUIRE(plain.size() == last.size());
    for (std::size_t i = 0; i < plain.size(); ++i)
      CHECK(test::worst_relative({last[i]}, {plain[i]}) < 1e-9);
  });
}

TEST_CASE("layout: either layout restores what the other saved, to the bit, and goes on") {
  Optimizers::each([]<class Policy>(const std::string& name) {
    CAPTURE(name);
    Seen seen;
    auto plain = [&] { return Trainer{net(&seen), Policy{}, EMA{}}; };
    auto last = [&] { return Trainer{net(&seen), Policy{}, EMA{}, Layout<ChannelsLast>{}}; };
    const auto check = [](auto from, auto to) {
      const auto data = images(3);
      from.step(data[0]), from.step(data[1]);
      to.step(data[2]);
      const StateDict saved = from.state();
      to.restore(saved);
      CHECK(test::same_state(to.state(), saved));
      const double expected = from.step(data[2]).loss();
      CHECK(to.step(data[2]).loss() == doctest::Approx(expected).epsilon(1e-9));
    };
    check(plain(), last());
    check(last(), plain());
  });
}

TEST_CASE("layout: blocks of 8-bit moments follow memory, and another layout's are refused") {
  Seen seen;
  const AdamW8bit policy{.block_size = 16, .min_8bit_size = 8};
  Trainer plain{net(&seen), policy};
  Trainer last{net(&seen), policy, Layout<ChannelsLast>{}};
  const auto data = images(2);
  plain.step(data[0]), last.step(data[0]);
  const auto before = last.state();
  CHECK(test::contains(test::message_of<Error>([&] { last.restore(plain.state()); }),
                       "first.weight.exp_avg_largest"));
  CHECK(test::same_state(last.state(), before));
}

TEST_CASE("layout: a model that calls view where reshape is needed is told so") {
  auto model = seeded([] { return torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)); });
  auto flat = [](auto& run, torch::nn::Conv2d& net, const Rows& batch) {
    at::Tensor y = run(net, batch.input);
    return Loss{y.view({y.size(0), -1}).square().sum(), y.size(0)};
  };
  Trainer trainer{model, flat, Layout<ChannelsLast>{}};
  const Rows batch{torch::randn({2, 3, 5, 5}), {}};
  CHECK(test::contains(test::message_of<StepFailed>([&] { trainer.step(batch); }), "reshape"));
}

}  // namespace guarantees::layout
