// Tests the use of modules::linear_cross_entropy: memory, retained graphs, errors, and in a
// trainer.
#include "attention_cases.hpp"

#include <iostream>
#include <sstream>

#include <ikebana.hpp>
#include <ikebana/bridge/memory_counter.hpp>
#include <ikebana/bridge/wide_products.hpp>
#include <ikebana/modules/linear_cross_entropy.hpp>

namespace test::linear_cross_entropy_use {

using ikebana::modules::linear_cross_entropy;
using ikebana::modules::LinearCrossEntropyOptions;

TEST_CASE("linear_cross_entropy: what docs/modules.md shows") {
  namespace modules = ikebana::modules;
  std::ostringstream lines;
  auto* terminal = std::cout.rdbuf(lines.rdbuf());

  // Hidden states of 2 x 64 tokens, a head of 1,000 classes; the first half has no targets.
  const auto hidden = at::randn({2, 64, 32}).requires_grad_();
  const auto head = at::zeros({1000, 32}).requires_grad_();
  const auto target = at::randint(1000, {2, 64}, at::kLong);
  target.slice(1, 0, 32).fill_(-100);

  const auto loss = modules::linear_cross_entropy(hidden, head, target);
  const auto mean = loss.count.divide(loss.sum);
  mean.backward();
  std::cout << loss.count.value() << " targets, " << mean.item<float>() << " each\n";

  std::cout.rdbuf(terminal);
  CHECK(lines.str() == "64 targets, 6.90776 each\n");  // log 1000
  CHECK(head.grad().norm().item<double>() > 0);
}

TEST_CASE("linear_cross_entropy: logits exist for a chunk at a time") {
  constexpr std::int64_t rows = 8192, classes = 4096, width = 16;
  constexpr std::int64_t logits = rows * classes * 4;
  ikebana::bridge::MemoryCounter counter(at::kCPU);
  const auto target = at::randint(classes, {rows}, at::kLong);
  // Without instructions for BF16 oneDNN may compute a product in FP32 beside its result.
  const std::int64_t half_chunk = (ikebana::bridge::has_native_products(at::kBFloat16) ? 34 : 54)
                                  << 20;
  for (const bool head_learns : {true, false}) {
    const auto hidden = at::randn({rows, width}).set_requires_grad(true),
               weight = at::randn({classes, width}).set_requires_grad(head_learns);
    for (const bool half : {false, true}) {
      const auto before = counter.now();
      counter.reset_peak();
      const auto loss = [&] {
        if (!half) return linear_cross_entropy(hidden, weight, target);
        const Autocast scope(at::kBFloat16);
        return linear_cross_entropy(hidden, weight, target);
      }();
      const auto kept = counter.now() - before;
      loss.sum.backward();
      // The peak is a chunk, in half precision with its copy, and no more than seven times the
      // bytes of hidden and weight. These are their gradients, copies of half the size, and what
      // accumulates.
      CHECK(counter.peak() - before <
            (half ? half_chunk : 21 << 20) + 7 * (rows + classes) * width * 4);
      CHECK(counter.peak() - before < logits / 2);
      // Between forward and backward there are only the gradients, and one element per loss.
      CHECK(kept <= (rows + (head_learns ? classes : 0)) * width * 4 + 64 * rows);
    }
  }
}

TEST_CASE("linear_cross_entropy: a retained graph gives the same gradients again") {
  const auto target = at::randint(50, {30}, at::kLong);
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const Tensors x = {random_leaf({30, 8}, type), random_leaf({50, 8}, type)};
    const auto sum = linear_cross_entropy(x[0], x[1], target).sum;
    const auto start = at::full({}, 0.3);
    const auto once = torch::autograd::grad({sum}, x, {start}, true);
    const auto kept = Tensors{once[0].clone(), once[1].clone()};
    CHECK(same_bits(kept, torch::autograd::grad({sum}, x, {start}, true)));
    CHECK(same_bits(kept, torch::autograd::grad({sum}, x, {start})));
    CHECK(same_bits(kept, once));
    CHECK(contains(message_of([&] { torch::autograd::grad({sum}, x, {start}); }), "second time"));
  }
}

TEST_CASE("linear_cross_entropy: an in-place change between forward and backward is an error") {
  const auto target = at::randint(50, {30}, at::kLong);
  const auto hidden = random_leaf({30, 8}), weight = random_leaf({50, 8});
  const auto scaled = weight * 2;
  const auto sum = linear_cross_entropy(hidden, scaled, target).sum;
  scaled.detach().mul_(3);
  CHECK(contains(message_of<c10::Error>([&] { sum.backward(); }), "modified by an inplace"));
}

TEST_CASE("linear_cross_entropy: the size of a chunk changes nothing but rounding") {
  const auto target = at::randint(3000, {300}, at::kLong);
  const Tensors x = {random_leaf({300, 8}), random_leaf({3000, 8})};
  const auto rows = [&](std::int64_t chunk_rows) {
    const auto sum = linear_cross_entropy(x[0], x[1], target, {.chunk_rows = chunk_rows}).sum;
    return torch::autograd::grad({sum}, x, {at::ones({})});
  };
  const auto all = rows(0);
  for (const std::int64_t chunk : {1, 7, 300, 5000})
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(error(rows(chunk)[i], all[i].to(at::kDouble)) < 0x1p-19);
}

std::string message_for(at::IntArrayRef hidden, at::IntArrayRef weight, const at::Tensor& target,
                        const LinearCrossEntropyOptions& o = {}) {
  return message_of<Error>(
      [&] { linear_cross_entropy(at::randn(hidden), at::randn(weight), target, o); });
}

TEST_CASE(
    "linear_cross_entropy: arguments that do not fit are an error with their sizes and the cure") {
  const auto target = at::zeros({4}, at::kLong);
  CHECK(contains(message_for({4, 8}, {10, 7}, target),
                 "hidden [4, 8], weight [10, 7], target [4] do not fit: hidden is (..., E)"));
  CHECK(contains(message_for({5, 8}, {10, 8}, target),
                 "target has the sizes of hidden without the last"));
  CHECK(contains(message_for({4, 8}, {10, 8}, target.to(at::kInt)), "target of Int"));
  CHECK(
      contains(message_for({4, 8}, {10, 8}, target + 10), "with the target 10, which is neither"));
  CHECK(contains(message_for({4, 8}, {10, 8}, target - 1), "nor ignore_index -100"));
  CHECK(contains(message_for({4, 8}, {10, 8}, target, {.bias = at::zeros({9})}), "bias [9]"));
  CHECK(contains(message_for({4, 8}, {10, 8}, target, {.label_smoothing = 1.5}),
                 "label_smoothing 1.5"));
  CHECK(
      contains(message_for({4, 8}, {10, 8}, target, {.label_smoothing = std::nan("")}), "0 to 1"));
  CHECK(contains(message_for({4, 8}, {10, 8}, target, {.chunk_rows = -1}), "chunk_rows -1"));
  const auto x = at::randn({4, 8}), w = at::randn({10, 8});
  const auto refused = [&](const at::Tensor& h, const at::Tensor& weight, const at::Tensor& t) {
    return message_of<Error>([&] { linear_cross_entropy(h, weight, t); });
  };
  CHECK(contains(refused(x, w.to(at::kDouble), target), "are Float and Double"));
  CHECK(contains(refused(x.to(at::kInt), w.to(at::kInt), target), "floating dtype"));
  CHECK(contains(refused(x, w.to(at::kMeta), target), "are on cpu, meta and cpu"));
  CHECK(contains(refused({}, w, target), "undefined"));
}

/// A unit that computes the loss, and that a checkpoint therefore runs twice.
struct HeadImpl : torch::nn::Module {
  HeadImpl() { weight = register_parameter("weight", at::randn({300, 8})); }
  at::Tensor forward(const at::Tensor& x, const at::Tensor& target) {
    return linear_cross_entropy(x, weight, target, {.chunk_rows = 10}).sum;
  }
  at::Tensor weight;
};
TORCH_MODULE(Head);

struct NetImpl : torch::nn::Module {
  using units = ikebana::Units<Head>;
  NetImpl() {
    first = register_module("first", torch::nn::Linear(8, 8));
    head = register_module("head", Head());
  }
  template <class Run>
  ikebana::Loss loss(Run& run, const std::pair<at::Tensor, at::Tensor>& batch) {
    return {run(head, first(batch.first), batch.second), batch.second.numel()};
  }
  torch::nn::Linear first{nullptr};
  Head head{nullptr};
};
TORCH_MODULE(Net);

template <class... Policies>
Tensors trained() {
  torch::manual_seed(4);
  Net net;
  ikebana::Trainer<Net, ikebana::AdamW, Policies...> trainer(net);
  for (int i = 0; i < 3; ++i)
    trainer.step(std::pair{at::randn({25, 8}), at::randint(300, {25}, at::kLong)});
  Tensors all;
  for (const auto& p : net->parameters()) all.push_back(p.detach().clone());
  return all;
}

TEST_CASE("linear_cross_entropy: a checkpoint around it changes no bit") {
  using namespace ikebana;
  CHECK(same_bits(trained<>(), trained<Checkpoint<Full>>()));
  CHECK(same_bits(trained<Precision<BF16>>(), trained<Precision<BF16>, Checkpoint<Full>>()));
  CHECK(worst_relative(trained<Accumulate<3>>(), trained<>()) < 1e-5);
}

}  // namespace test::linear_cross_entropy_use
